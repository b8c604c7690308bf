-- Tell the time of the clock that judges claims and delays.
--
-- KEYS: 1 the board
-- ARGV: none
-- Returns: OK, and the microseconds since the epoch
-- Changes nothing.
--
-- include: board

return {'OK', now}
