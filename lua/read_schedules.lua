-- Read schedules by id.
--
-- KEYS: 1 the board
-- ARGV: 1.. the ids
-- Returns: OK; id, version, moment, body of each; false for version and body of those that there are not
-- Changes nothing.
--
-- include: schedules

return {'OK', show_schedules(ARGV)}
