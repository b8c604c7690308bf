-- Own the best unclaimed jobs.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [who, claim id, expiry in microseconds or nil for never, limit, names or nil for all]
-- Returns: MORE (call again; nothing was claimed), or OK and the jobs, best first
-- Is not repeated: after a lost reply the client asks claimed_under.lua first.
--
-- include: settle
-- include: ready
-- include: show

if settle('100') then
  return {'MORE'}
end

local request = cmsgpack.unpack(ARGV[1])
local who, claim_id, expiry, limit, names = request[1], request[2], request[3], request[4], request[5]

local function best(count)
  local orders = {}
  for index, name in ipairs(ready_names(names, count)) do
    orders[index] = order('UNCLAIMED', name)
  end
  if #orders == 0 or count == 1 or #orders == 1 then
    return orders[1] and redis.call('ZRANGE', orders[1], 0, count - 1) or {}, orders
  end
  return (merge(orders, nil, count)), orders
end

-- What stands in an order without being an unclaimed job is taken out, so that it can't stand in the way for ever.
local function drop(uuid, orders)
  for _, name in ipairs(orders) do
    redis.call('ZREM', name, uuid)
    set_head(string.sub(name, #order('UNCLAIMED', '') + 1))
  end
end

local claimed = {}
while #claimed < limit do
  local uuids, orders = best(limit - #claimed)
  fetch(uuids)
  local strays = #uuids == 0 and #orders > 0
  for _, uuid in ipairs(uuids) do
    local job = jobs[uuid]
    if job and job.state == 'UNCLAIMED' then
      grant(job, who, claim_id, expiry)
      claimed[#claimed + 1] = job
    else
      strays = true
      drop(uuid, orders)
    end
  end
  flush()
  if not strays then
    break
  end
  for _, name in ipairs(orders) do
    set_head(string.sub(name, #order('UNCLAIMED', '') + 1))
  end
end
return {'OK', show(claimed)}
