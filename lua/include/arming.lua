-- include: waiters

-- Arm the waiter of a request until a moment (nil: for as long as it sleeps), unless that is now; and forget waiters
-- whose clients have died. The request is [names or nil for all, the waiter or nil, how long it sleeps at most, its
-- claim request or nil, as in claim_next.lua]. A waiter that wakes sooner claims by itself then, so its claim request
-- does not stand. Returns the claim id of an earlier request, under which nothing was claimed, or false.
local function arm_anew(request, moment)
  local names, id, longest = request[1] or {''}, request[2], request[3]
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', key('armed'), '-inf', now - SOON, 'LIMIT', 0, 100)) do
    disarm(gone)
  end
  if not id then
    return false
  end
  local withdrawn
  if moment and moment <= now then
    withdrawn = disarm(id)
  else
    -- A waiter's names never change, so what stands is written over.
    withdrawn = select(2, armed_with(id))
    local until_when = now + math.min(longest, moment and moment - now or longest)
    local claim = until_when == now + longest and request[4] or nil
    redis.call('HSET', key('waiters'), id, cmsgpack.pack(names, claim))
    redis.call('ZADD', key('armed'), until_when, id)
    for _, name in ipairs(names) do
      redis.call('ZADD', key('waiting', name), until_when, id)
    end
  end
  return withdrawn and withdrawn[2] or false
end
