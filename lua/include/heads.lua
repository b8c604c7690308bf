-- include: board
-- Let `heads` have the place of a name's best unclaimed job.
local function set_head(name)
  local head = redis.call('ZRANGE', state_index('UNCLAIMED', name), '0', '0', 'WITHSCORES')
  if head[2] then
    redis.call('ZADD', key('heads'), head[2], name)
  else
    redis.call('ZREM', key('heads'), name)
  end
end
