-- Tell the time by which claims and delays are judged.
--
-- KEYS: 1 the board
-- ARGV: none
-- Returns: OK, and the microseconds since the epoch
-- Changes nothing.
--
-- include: board

return {'OK', now}
