#!lua flags=allow-oom
-- Take steps of schedules that post nothing: while memory is full, they can be paused and removed.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[id, the version stepped on from or nil, the new version or nil to delete, next_at or nil,
--       no postings ([]), [[kind, uuid or nil, name or nil, who, reason or nil], ...]], ...]
--       2.. for each step its body (empty for a deletion)
-- Returns: OK; DONE, REPEATED or LOST for each
-- A repeat finds its own version, or no schedule after a deletion, and does nothing.
--
-- include: take_steps

return {'OK', verdicts}
