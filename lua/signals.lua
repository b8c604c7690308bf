-- Read the signals that were sent to a job.
--
-- KEYS: 1 the board
-- ARGV: 1 uuid
-- Returns: OK, and name and moment with value (in msgpack) of each
-- Changes nothing.
--
-- include: remains

return {'OK', are_remains(ARGV[1]) and {} or redis.call('HGETALL', key('signals', ARGV[1]))}
