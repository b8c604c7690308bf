#!lua flags=allow-oom
-- Apply steps of schedules that post nothing: also while memory is full, schedules can be paused and removed.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[id, the stored version or nil, the new version or nil to delete, next_at or nil,
--       postings (none: []), [[kind, uuid or nil, name or nil, who, reason or nil], ...]], ...]
--       2.. for each step its body (empty for a deletion)
-- Returns: OK; DONE, REPEATED or LOST for each
-- A repeat finds its own version, or no schedule after a deletion, and does nothing.
--
-- include: apply_schedule_steps

return {'OK', verdicts}
