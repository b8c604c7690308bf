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
-- has waited for that, if it was admitted after a wait.

local TIED_COUNT = FIELD_COUNT + 2
local RECORD_HEAD, TIED_HEAD = '\220\0\FIELD_COUNT', string.char(220, 0, TIED_COUNT)

local function has_known_head(value)
  local head = string.sub(value, 1, #RECORD_HEAD)
  return head == RECORD_HEAD or head == TIED_HEAD
end

local function is_newer(fields)
  return fields ~= FIELD_COUNT and fields ~= TIED_COUNT
end
