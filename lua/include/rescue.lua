-- include: transitions
-- Expires claims whose owner key is gone. Keys and leases can vanish by eviction or by hand, so the search begins with
-- the claimed jobs: up to 500 of them at a time, at most once a second, from where the last search ended.

local function rescue_ownerless(uuids)
  local keys = {}
  for index, uuid in ipairs(uuids) do
    keys[index] = key('owner', uuid)
  end
  if #keys == 0 or redis.call('EXISTS', unpack(keys)) == #keys then
    return
  end
  fetch(uuids)
  for index, uuid in ipairs(uuids) do
    local job = jobs[uuid]
    if job and job.state == 'CLAIMED' and not newer[uuid] and redis.call('EXISTS', keys[index]) == 0 then
      expire(job)
    end
  end
end

local function rescue_claims()
  local last = redis.call('HMGET', key('swept'), 'at', 'name', 'place')
  if math.abs(now - (tonumber(last[1] or '') or 0)) < RESCUE_INTERVAL then
    return
  end
  local left, name, spot = 500, last[2] or '', last[3] or '-inf'
  local place = tonumber((string.gsub(spot, '^%(', '')))
  if not place or place ~= place then
    spot = '-inf'
  end
  local names = redis.call('ZRANGEBYLEX', key('names'), '[' .. name, '+', 'LIMIT', 0, 100)
  local reached, at = '', '-inf'
  for _, other in ipairs(names) do
    local from = other == name and spot or '-inf'
    local found = redis.call(
      'ZRANGEBYSCORE', state_index('CLAIMED', other), from, '+inf', 'WITHSCORES', 'LIMIT', 0, left)
    local uuids = {}
    for index = 1, #found, 2 do
      uuids[#uuids + 1] = found[index]
    end
    rescue_ownerless(uuids)
    left = left - #uuids
    if left <= 0 then
      reached, at = other, '(' .. found[#found]
      break
    end
  end
  if left > 0 and #names == 100 then
    reached, at = names[100], '+inf'
  end
  redis.call('HSET', key('swept'), 'at', decimal(now), 'name', reached, 'place', at)
  write_back()
end
