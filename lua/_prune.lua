-- include: board
-- Take completed jobs whose retention is over out of the orders; their records go by their own TTL.

local function prune(most)
  local members = redis.call('ZRANGEBYSCORE', key('retained'), '-inf', now_text, 'LIMIT', '0', most)
  for _, member in ipairs(members) do
    redis.call('ZREM', order('COMPLETE', string.sub(member, 37)), string.sub(member, 1, 36))
  end
  if #members > 0 then
    redis.call('ZREM', key('retained'), unpack(members))
  end
  return #members
end
