-- Read schedules by id.
--
-- KEYS: 1 the board
-- ARGV: 1.. the ids
-- Returns: OK; id, version, next moment or false, body of each; version and body are false for a missing one
-- Changes nothing.
--
-- include: schedules

return {'OK', schedule_rows(ARGV)}
