-- Read the paused names.
--
-- KEYS: 1 the board
-- ARGV: none
-- Returns: OK, and the names; an empty one is the whole board
-- Changes nothing.
--
-- include: paused

return {'OK', paused_members()}
