-- include: heads
-- include: plain
-- include: record_parts
-- include: waiters
-- The plain case of what relatives.lua settles: children that wait for nothing but parents, one of which is done, or
-- for their graph. What it writes and what relatives.lua and writeback.lua write must be changed together.

local settle_plainly = (function()
  -- Fewer children are written together with what else the script changes.
  local MIN_SETTLED = 5

  -- Of the first record of a run: its middle, and what replaces that.
  local function settled(uuid, value, head_end, graph, is_released)
    -- luacheck: ignore 311
    local fields, rest,
      -- each field, by ",": its_FIELD
      , its_lane, its_since, its_ties
      = read_record(uuid, value)
    if fields ~= TIED_COUNT or rest < 0 or its_lane or its_state ~= 'BLOCKED'
      or its_history_length >= HISTORY_LENGTH then
      return
    end
    local
      -- each tie, by ",": its_TIE
      = cmsgpack.unpack(its_ties)
    if not its_has_parents or its_signal or its_start_by or its_graph ~= graph then
      return
    end
    its_graph = false
    if is_released then
      its_state, its_has_parents, its_since = 'UNCLAIMED', false, false
      its_history_length = its_history_length + 1
    end
    local record = TIED_HEAD .. cmsgpack.pack(
      -- each field, by ",": its_FIELD
    ) .. cmsgpack.pack(false, its_since, cmsgpack.pack(
      -- each tie, by ",": its_TIE
    ))
    local tail = tail_of(record, value, head_end)
    return string.sub(value, head_end + MOMENT_LENGTH + 1, rest), tail and string.sub(tail, MOMENT_LENGTH + 1)
  end

  -- What `jobs` has of each child afterwards, and if it is released, what the indexes have; else nil. Worked out before
  -- anything is written, so it may raise an error about a record that can't be read.
  local function settled_records(children, values, graph, released)
    local names, records, members, places = {}, {}, {}, {}
    local moment, entry = cmsgpack.pack(now), cmsgpack.pack('RESOLVED', now, false, false, false)
    -- Of those that are released, and of those that are not.
    local middles, following = {}, {}
    local last_place, last_priority, old, new, place
    for number, uuid in ipairs(children) do
      local value, is_released = values[number], released[number]
      local head_end, its_name, its_place, its_sequence, its_priority = read_head(uuid, value)
      if not has_middle(value, head_end, middles[is_released]) then
        middles[is_released], following[is_released] = settled(uuid, value, head_end, graph, is_released)
      end
      if not following[is_released] then
        return
      end
      local modified = head_end + MOMENT_LENGTH
      local history = string.sub(value, modified + #middles[is_released] + 1)
      if is_released then
        if its_place ~= last_place or its_priority ~= last_priority then
          last_place, last_priority, place = its_place, its_priority, place_of(now, its_priority)
          old, new = cmsgpack.pack(its_place), cmsgpack.pack(place)
        end
        -- The place is the text before the last moment of the head.
        local spot = head_end - MOMENT_LENGTH
        if string.sub(value, spot - #old + 1, spot) ~= old then
          return
        end
        records[number] = string.sub(value, 1, spot - #old) .. new .. string.sub(value, spot + 1, head_end) .. moment
          .. following[true] .. history .. entry
        names[number], members[number], places[number] = its_name, member_of(uuid, its_sequence), place
      else
        records[number] = string.sub(value, 1, modified) .. following[false] .. history
      end
    end
    return records, names, members, places
  end

  local function count_of(kind, children)
    local keys = {}
    for number, child in ipairs(children) do
      keys[number] = key(kind, child)
    end
    return redis.call('EXISTS', unpack(keys))
  end

  -- Of each of these children of a graph whether it waits for nothing else; nil if one knows of the end of a parent.
  local function released_of_graph(children)
    local count, released = count_of('parents', children), {}
    if count > 0 and count_of('ends', children) > 0 then
      return
    end
    for number, child in ipairs(children) do
      released[number] = count == 0 or count < #children and redis.call('EXISTS', key('parents', child)) == 0
    end
    return released
  end

  -- Let children know that a parent is done; returns of each whether it waits for nothing else.
  local function released_of_parent(children, parent, ending)
    local value, released = cmsgpack.pack(unpack(ending, 1, 4)), {}
    for number, child in ipairs(children) do
      redis.call('HSET', key('ends', child), parent, value)
      released[number] = redis.call('ZCARD', key('parents', child)) <= redis.call('HLEN', key('ends', child))
    end
    return released
  end

  -- Write those of these records that are to be written.
  local function write(children, wanted, records, names, members, places)
    local fields, from, to, heads, ready = {}, {}, {}, {}, {}
    for number, uuid in ipairs(children) do
      local name, place = names[number], places[number]
      if wanted[number] then
        fields[#fields + 1], fields[#fields + 2] = uuid, records[number]
      end
      if wanted[number] and name then
        local was, is = list_in(from, state_index('BLOCKED', name)), list_in(to, state_index('UNCLAIMED', name))
        was[#was + 1], is[#is + 1], is[#is + 2] = members[number], place, members[number]
        heads[name] = heads[name] and tonumber(heads[name]) < tonumber(place) and heads[name] or place
        ready[name] = (ready[name] or 0) + 1
      end
    end
    if #fields > 0 then
      redis.call('HSET', key('jobs'), unpack(fields))
    end
    write_all('ZREM', from)
    write_all('ZADD', to)
    for name, place in pairs(heads) do
      redis.call('ZADD', key('heads'), 'LT', place, name)
    end
    wake_waiters(ready, {}, {}, {})
  end

  -- Let children that this script has not loaded become what follows from how a parent, or their graph, stands. Returns
  -- whether the case was plain.
  return function(children, parent, ending)
    local graph, all = string.match(parent, '^graph:(.*)'), {}
    for number, child in ipairs(children) do
      if jobs[child] ~= nil then
        return false
      end
      all[number] = true
    end
    if #children < MIN_SETTLED or ending[1] ~= 'DONE' or is_heard('RESOLVED')
      or not graph and count_of('failed', children) + count_of('gone', children) > 0 then
      return false
    end
    local released = not graph and all or released_of_graph(children)
    if not released then
      return false
    end
    local values = redis.call('HMGET', key('jobs'), unpack(children))
    local is_readable, records, names, members, places = pcall(
      settled_records, children, values, graph or false, released)
    if not is_readable or not records then
      return false
    end
    local wanted = graph and all or released_of_parent(children, parent, ending)
    write(children, wanted, records, names, members, places)
    return true
  end
end)()
