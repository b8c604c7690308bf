-- include: waiters

-- Forget waiters whose clients have died.
local function forget_gone()
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', key('armed'), '-inf', now - SOON, 'LIMIT', 0, 100)) do
    disarm(gone)
  end
end

-- Arm the waiter of a request until a moment (nil: for as long as it sleeps), unless that is now. The request is [names
-- or nil for all, the waiter or nil, how long it sleeps at most, its claim request or nil, as in claim_next.lua, and
-- whether an empty message is to go to its channel]. A waiter that wakes sooner claims by itself then, so its claim
-- request does not stand. Returns the claim id of an earlier request, under which nothing was claimed, or false.
local function arm_anew(request, moment)
  local names, id, longest = request[1] or {''}, request[2], request[3]
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
    if request[5] then
      redis.call('SPUBLISH', channel_of(id), '')
    end
  end
  return withdrawn and withdrawn[2] or false
end
