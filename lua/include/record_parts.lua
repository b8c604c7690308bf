-- include: read_record
-- A record in parts, for the plain case: the head (its first six fields, which claims and ends don't change), the field
-- `modified`, the middle (the other fields) and the history. Most jobs of a batch have the same middle, so only the
-- first one is read field by field and packed anew, which takes several times as long as comparing and copying bytes.

local unpack_limit = cmsgpack.unpack_limit

-- What begins `modified`, and how long it is: a number of eight bytes.
local MOMENT, MOMENT_LENGTH = 207, 9

-- Where the head of a record ends, its name, place, sequence and priority. Returns nothing, or raises an error, if it
-- can't be read or is of a newer format. Only a finite number is itself after this arithmetic; nothing else is.
local function read_head(uuid, value)
  local rest, its_uuid, name, priority, sequence, place, created = unpack_limit(value, 6, #RECORD_HEAD)
  local spot = place + 0
  if its_uuid == uuid and place ~= spot and spot - spot == 0 and priority - priority + priority == priority
    and sequence - sequence + sequence == sequence and created - created + created == created
    and has_known_head(value) and string.byte(value, rest + 1) == MOMENT
  then
    return rest, name, place, sequence, priority
  end
end

-- Whether a record has this middle. A value of msgpack says where it ends, so the same bytes are the same fields.
local function has_middle(value, head_end, middle)
  local first = head_end + MOMENT_LENGTH + 1
  return middle and string.find(value, middle, first, true) == first
end

-- What follows the head in a record that is packed anew; false if that has another head.
local function tail_of(record, value, head_end)
  return string.sub(record, 1, head_end) == string.sub(value, 1, head_end) and string.sub(record, head_end + 1)
end
