-- include: open_parents
-- The plain case of link.lua: a part of a graph that is not complete waits for jobs that have not ended, and have
-- children. What it writes and what edges.lua writes must be changed together.

-- Returns the outcome, if the case is plain. An edge that is there is written again as it is.
local function link_plainly(child, parents)
  if is_due() then
    return
  end
  -- luacheck: ignore 311
  local fields, _,
    -- each field, by ",": its_FIELD
    , its_lane, its_since, its_ties
    = read_record(child, redis.call('HMGET', key('jobs'), child)[1])
  if fields ~= TIED_COUNT or its_state ~= 'BLOCKED' then
    return
  end
  local
    -- each tie, by ",": its_TIE
    = cmsgpack.unpack(its_ties)
  if not (its_graph and its_has_parents and its_has_keys) or not are_open_parents(parents) then
    return
  end
  local edges = {}
  for number, parent in ipairs(parents) do
    edges[2 * number - 1], edges[2 * number] = '0', parent
    redis.call('ZADD', key('children', parent), '0', child)
  end
  return redis.call('ZADD', key('parents', child), unpack(edges)) > 0 and 'DONE' or 'REPEATED'
end
