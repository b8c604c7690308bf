#!lua flags=allow-oom
-- Own the best unclaimed jobs.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [who, claim id, expiry in microseconds or nil for never, limit, names or nil for all]
-- Returns: MORE (call again; nothing was claimed), or OK, the jobs, best first, and the uuid of a job of a newer format
--       that was passed over, or false
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

-- What stands in an order without being an unclaimed job is taken out, so that it can't stand in the way for ever.
local function drop(strays, orders)
  for _, name in ipairs(orders) do
    if #strays > 0 then
      redis.call('ZREM', name, unpack(strays))
    end
    set_head(string.sub(name, #order('UNCLAIMED', '') + 1))
  end
end

-- Claim what is wanted of these jobs; whether there were strays, and the first job of a newer format.
local function claim_some(uuids, orders, claimed)
  local strays, passed = {}, nil
  for _, uuid in ipairs(uuids) do
    local job = jobs[uuid]
    if newer[uuid] then
      passed = passed or uuid
    elseif not job or job.state ~= 'UNCLAIMED' then
      strays[#strays + 1] = uuid
    elseif #claimed < limit then
      grant(job, who, claim_id, expiry)
      claimed[#claimed + 1] = job
    end
  end
  flush()
  local is_astray = #strays > 0 or #uuids == 0 and #orders > 0
  if is_astray then
    drop(strays, orders)
  end
  return is_astray, passed
end

-- Where strays stand in the way, or jobs of a newer format, a second and a third look go past them.
local claimed, strays, passed = {}, false, nil
for round = 1, 3 do
  local uuids, orders = best(names, limit - #claimed + (round > 1 and LOOK_PAST or 0))
  local newest
  strays, newest = claim_some(uuids, orders, claimed)
  passed = passed or newest
  if #claimed == limit or not strays and not (newest and round == 1) then
    break
  end
end
if strays and #claimed == 0 then
  return {'MORE'}
end
return {'OK', show(claimed), passed or false}
