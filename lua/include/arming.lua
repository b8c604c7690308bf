-- include: waiters

-- Arm the waiter of a request ([names or nil for all, the waiter or nil, how long it sleeps at most]) until a moment
-- (nil: for as long as it sleeps), unless that is now; and forget waiters whose clients have died.
local function arm_anew(request, moment)
  local names, id, longest = request[1] or {''}, request[2], request[3]
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', key('armed'), '-inf', now - SOON, 'LIMIT', 0, 100)) do
    disarm(gone)
  end
  if id then
    disarm(id)
  end
  if id and (not moment or moment > now) then
    local until_when = now + math.min(longest, moment and moment - now or longest)
    redis.call('HSET', key('waiters'), id, cmsgpack.pack(names))
    redis.call('ZADD', key('armed'), until_when, id)
    for _, name in ipairs(names) do
      redis.call('ZADD', key('waiting', name), until_when, id)
    end
  end
end
