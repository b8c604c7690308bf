-- include: board
-- include: record

local type = type

-- Whether the third field of a tied record can be read.
local function has_ties(value)
  local readable,
    -- each tie, by ",": its_TIE
    = pcall(cmsgpack.unpack, value)
  return readable
    -- each optional_text tie: and (its_TIE == false or type(its_TIE) == 'string')
    -- each optional_number tie: and (its_TIE == false or type(its_TIE) == 'number' and its_TIE - its_TIE == 0)
    -- each flag tie: and (its_TIE == false or its_TIE == true)
end

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
    , its_lane, its_since, its_ties
    = pcall(cmsgpack.unpack_limit, value, count, #RECORD_HEAD)
  local place = readable and its_uuid == uuid and STATE_INDEXES[its_state] and tonumber(its_place)
  if place and place - place == 0
    -- each text field: and type(its_FIELD) == 'string'
    -- each number field: and type(its_FIELD) == 'number' and its_FIELD - its_FIELD == 0
    -- each optional_text field: and (its_FIELD == false or type(its_FIELD) == 'string')
    -- each optional_number field: and (its_FIELD == false or type(its_FIELD) == 'number' and its_FIELD - its_FIELD == 0)
    -- each flag field: and (its_FIELD == false or its_FIELD == true)
    and (count ~= LANED_COUNT and count ~= TIED_COUNT
      or (type(its_lane) == 'string' or count == TIED_COUNT and its_lane == false)
      and (its_since == false or type(its_since) == 'number' and its_since - its_since == 0))
    and (count ~= TIED_COUNT or type(its_ties) == 'string' and has_ties(its_ties))
  then
    return count, rest,
      -- each field, by ",": its_FIELD
      , its_lane, its_since, its_ties
  end
end
