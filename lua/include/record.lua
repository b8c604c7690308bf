-- include: board
-- A record is a msgpack array of the fields below, followed by the history: kind, moment, owner, token and reason of
-- each entry, one value after the other. A newer format appends fields; such a job is shown, but never changed, because
-- this version doesn't know what they mean. A completed or cancelled job is a key of its own with a TTL. Its value is
-- record, history, posting, checkpoint, progress and result, one after the other. False stands for a missing value.
--
-- This is the only list of the fields. The loader writes a line with "each field" once for each of them, and one with
-- "each KIND field" once for each of that kind.
--
-- fields: uuid text, name text, priority number, sequence number, place text, created number, modified number,
-- fields: state text, attempts number, token number, history_length number, key optional_text,
-- fields: max_attempts optional_number, run_at optional_number, owner optional_text, claim_id optional_text,
-- fields: expires optional_number, cancel flag, reason optional_text, error optional_text, checkpoint flag,
-- fields: progress flag, retained optional_number

local RECORD_HEAD = '\220\0\FIELD_COUNT'


local type = type

-- Read a record: the number of its fields, where its history begins, and the fields that this version knows; nothing if
-- it can't be read. A field of a wrong type would make a script fail halfway. A number minus itself is 0, unless it is
-- infinity or NaN.
local function read_record(uuid, value)
  local first, high, low = string.byte(value or '', 1, #RECORD_HEAD)
  local count = first == 220 and low and high * 256 + low or 0
  if count < FIELD_COUNT then
    return
  end
  local readable, rest,
    -- each field, by ",": its_FIELD
    = pcall(cmsgpack.unpack_limit, value, count, #RECORD_HEAD)
  local place = readable and its_uuid == uuid and STATE_INDEXES[its_state] and tonumber(its_place)
  if place and place - place == 0
    -- each text field: and type(its_FIELD) == 'string'
    -- each number field: and type(its_FIELD) == 'number' and its_FIELD - its_FIELD == 0
    -- each optional_text field: and (its_FIELD == false or type(its_FIELD) == 'string')
    -- each optional_number field: and (its_FIELD == false or type(its_FIELD) == 'number' and its_FIELD - its_FIELD == 0)
    -- each flag field: and (its_FIELD == false or its_FIELD == true)
  then
    return count, rest,
      -- each field, by ",": its_FIELD
  end
end
