-- A record is a msgpack array of the fields below, followed by the history: kind, moment, owner, token and reason of
-- each entry, one value after the other. A newer format appends fields; such a job is shown, but never changed, because
-- this version doesn't know what they mean. A completed or cancelled job is a key of its own with a TTL. Its value is
-- record, history, posting, checkpoint, progress and result, one after the other. False stands for a missing value.
--
-- This is the only list of the fields. The loader writes a line with "each field" once for each of them, and one with
-- "each KIND field" once for each of that kind; NUMBER counts them. Those of the kind "posted" come with a posting.
--
-- fields: uuid text, name text, priority number, sequence number, place text, created number, modified number,
-- fields: state text, attempts number, token number, history_length number, key optional_text,
-- fields: max_attempts optional_number posted, run_at optional_number, owner optional_text, claim_id optional_text,
-- fields: expires optional_number, cancel flag, reason optional_text, error optional_text, checkpoint flag,
-- fields: progress flag, retained optional_number
--
-- A job with a lane has two more fields, so that the plain case passes it over: the lane, and the moment since which it
-- has waited for that, if it was admitted after a wait. One with other ties has these two, and a third: a text that is
-- the msgpack of the ties below, one after the other; a line with "each tie" is written once for each of them. `graph`
-- is the graph that is not complete yet; `key_until` is until when it keeps its key, also if it ends before;
-- `has_keys` is whether there are keys of its own beside its record, such as its steps (see own_keys.lua).
--
-- ties: start_by optional_number, latest optional_number, key_until optional_number, signal optional_text,
-- ties: if_failed optional_text, graph optional_text, on_trashed optional_text, on_complete optional_text,
-- ties: has_children flag, has_parents flag, has_keys flag

local LANED_COUNT, TIED_COUNT = FIELD_COUNT + 2, FIELD_COUNT + 3
local RECORD_HEAD = '\220\0\FIELD_COUNT'
local LANED_HEAD, TIED_HEAD = string.char(220, 0, LANED_COUNT), string.char(220, 0, TIED_COUNT)

local function has_known_head(value)
  local head = string.sub(value, 1, #RECORD_HEAD)
  return head == RECORD_HEAD or head == LANED_HEAD or head == TIED_HEAD
end

local function is_newer(fields)
  return fields ~= FIELD_COUNT and fields ~= LANED_COUNT and fields ~= TIED_COUNT
end
