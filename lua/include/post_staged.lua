-- include: board
-- include: lists
-- include: open_parents
-- include: own_keys
-- include: post_plainly
-- The plain case of a part of a graph: new jobs of one name that wait for the graph, whose mark says when it is given
-- up, and for parents that have not ended. What it writes and what posting.lua writes must be changed together.

local PLAIN_TIES = {graph = true, has_children = true, parents = true}

-- The ties of a part of a graph, if they are plain.
local function staged_ties(parts)
  local delay, lane, ties = unpack(cmsgpack.unpack(parts), 1, 3)
  if delay or lane or not ties or not ties.graph then
    return
  end
  for tie in pairs(ties) do
    if not PLAIN_TIES[tie] then
      return
    end
  end
  return ties
end

-- Returns the uuids, the ties of each, and the parents that are none of these, if the case is plain but for records.
local function staged_uuids(postings)
  local name, graph, uuids, ties_of, seen, known = postings[2], nil, {}, {}, {}, {}
  local others, is_other = {}, {}
  for index = 1, #ARGV - 1 do
    local from = POSTING_PARTS * (index - 1)
    local uuid, parts = postings[from + 1], postings[from + 7]
    local is_other_name = postings[from + 2] ~= name
    if type(parts) ~= 'string' or is_other_name or seen[uuid] or postings[from + 4] or postings[from + 6] then
      return
    end
    -- Most jobs of a part have the same ties, in the same bytes.
    local ties = known[parts] or staged_ties(parts)
    if not ties or ties.graph ~= (graph or ties.graph) then
      return
    end
    for _, parent in ipairs(not known[parts] and ties.parents or {}) do
      if seen[parent] and not seen[parent].has_children then
        return
      elseif not seen[parent] and not is_other[parent] then
        is_other[parent], others[#others + 1] = true, parent
      end
    end
    known[parts], graph, seen[uuid] = ties, ties.graph, ties
    uuids[index], ties_of[index] = uuid, ties
  end
  return uuids, ties_of, others
end

-- Whether a graph may get a further part, and all its jobs are new.
local function is_new_part(uuids, graph)
  local mark = redis.call('HMGET', key('marks'), 'graph:' .. graph)[1]
  local is_readable, values = pcall(cmsgpack.unpack, mark or '')
  if mark and not (is_readable and type(values) == 'table' and type(values[6]) == 'number' and values[6] > now)
    or is_due() or is_heard('POSTED') then
    return false
  end
  local gone = {key('graph', graph)}
  for number, uuid in ipairs(uuids) do
    gone[number + 1] = key('done', uuid)
  end
  return redis.call('EXISTS', unpack(gone)) == 0 and not is_any_known(uuids)
end

-- Let new jobs have keys of their own: in `owners`, each comes behind its score.
local function add_owners(owners)
  if redis.call('ZADD', key('own_keys'), 'NX', unpack(owners)) < #owners / 2 then
    for at = 2, #owners, 2 do
      delete_remains(owners[at])
    end
    redis.call('ZADD', key('own_keys'), unpack(owners))
  end
end

-- What a record has behind its fields, but for the history.
local function packed_ties(ties)
  -- luacheck: ignore 311
  local
    -- each tie, by ",": its_TIE
    =
    -- each tie, by ",": '\194'
  its_graph, its_has_parents = cmsgpack.pack(ties.graph), '\195'
  if ties.has_children then
    its_has_children = '\195'
  end
  if ties.has_children or ties.parents then
    its_has_keys = '\195'
  end
  return '\194\194' .. cmsgpack.pack(''
    -- each tie: .. its_TIE
  )
end

-- Let new jobs wait for their graph and their parents.
local function add_edges(uuids, ties_of, graph)
  local adds, owners = {}, {}
  local parts = list_in(adds, key('children', 'graph:' .. graph))
  for index, uuid in ipairs(uuids) do
    local ties = ties_of[index]
    parts[2 * index - 1], parts[2 * index] = '0', uuid
    if ties.has_children or ties.parents then
      owners[#owners + 1], owners[#owners + 2] = '+inf', uuid
    end
    local parents = ties.parents and list_in(adds, key('parents', uuid))
    for number, parent in ipairs(ties.parents or {}) do
      local children = list_in(adds, key('children', parent))
      children[#children + 1], children[#children + 2] = '0', uuid
      parents[2 * number - 1], parents[2 * number] = '0', parent
    end
  end
  if #owners > 0 then
    add_owners(owners)
  end
  write_all('ZADD', adds)
end

-- Post them, if they are new. Returns the answer of post.lua.
local function post_staged(postings)
  -- luacheck: ignore 311
  local uuids, ties_of, others = staged_uuids(postings)
  local graph = uuids and ties_of[1].graph
  if not uuids or not is_new_part(uuids, graph) or #others > 0 and not are_open_parents(others) then
    return
  end
  local pack, count, name = cmsgpack.pack, #uuids, postings[2]
  local
    -- each field, by ",": its_FIELD
    =
    -- each field, by ",": '\194'
  its_name, its_created, its_state, its_attempts, its_token = pack(name), pack(now), '\167BLOCKED', '\0', '\0'
  its_modified, its_history_length = its_created, '\1'
  local entries, ends = '\166POSTED' .. its_created .. '\194\194\194', {}
  local sequence = redis.call('HINCRBY', key('counters'), 'sequence', count) - count
  local records, listings, places, codes = {}, {}, {}, {}
  for index = 1, count do
    local at, from = 2 * index, POSTING_PARTS * (index - 1)
    local uuid, priority, ties = uuids[index], postings[from + 3], ties_of[index]
    local place = place_of(now, priority)
    sequence = sequence + 1
    ends[ties] = ends[ties] or packed_ties(ties) .. entries
    its_uuid, its_priority, its_sequence, its_place = pack(uuid), pack(priority), pack(sequence), pack(place)
    -- each posted field: its_FIELD = pack(postings[from + 7 + NUMBER] or false)
    records[at - 1], records[at] = uuid, TIED_HEAD
      -- each field: .. its_FIELD
      .. ends[ties]
    listings[at - 1], listings[at] = uuid, ARGV[index + 1]
    places[at - 1], places[at] = place, member_of(uuid, sequence)
    codes[index] = -sequence
  end
  add_edges(uuids, ties_of, graph)
  redis.call('HSET', key('jobs'), unpack(records))
  redis.call('HSET', key('listings'), unpack(listings))
  redis.call('ZADD', key('blocked', name), unpack(places))
  redis.call('ZADD', key('names'), 'NX', '0', name)
  local due = now + GRAPH_TTL
  redis.call('HSET', key('marks'), 'graph:' .. graph, pack({'GONE', '', false, false, '', due}))
  redis.call('ZADD', key('delayed'), string.format('%.0f', due), '\tgraph:' .. graph)
  return {'OK', now, codes, {}}
end
