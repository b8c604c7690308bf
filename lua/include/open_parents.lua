-- include: plain
-- include: record_parts

-- Whether these jobs are on the board and have not ended, and their records stay as they are with one more child.
local function are_open_parents(uuids)
  local values = redis.call('HMGET', key('jobs'), unpack(uuids))

  -- Of the first record of a run: its middle.
  local function middle_of(uuid, value, head_end)
    -- luacheck: ignore 311
    local fields, rest,
      -- each field, by ",": its_FIELD
      , its_lane, its_since, its_ties
      = read_record(uuid, value)
    if fields ~= TIED_COUNT or rest < 0 or its_state == 'TRASHED' or its_state == 'COMPLETE' then
      return
    end
    local
      -- each tie, by ",": its_TIE
      = cmsgpack.unpack(its_ties)
    return its_has_children and its_has_keys and string.sub(value, head_end + MOMENT_LENGTH + 1, rest)
  end

  return (pcall(function()
    local middle
    for number, uuid in ipairs(uuids) do
      local value = values[number]
      local head_end = read_head(uuid, value)
      if not has_middle(value, head_end, middle) then
        middle = assert(middle_of(uuid, value, head_end))
      end
    end
  end))
end
