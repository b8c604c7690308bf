-- Read all limits.
--
-- KEYS: 1 the board
-- ARGV: none
-- Returns: OK; scope and pattern, in one text, and the limit, of each
-- Changes nothing.
--
-- include: keys

return {'OK', redis.call('HGETALL', key('limits'))}
