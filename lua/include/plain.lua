-- include: clock
-- include: keys
-- The plain case: nothing is due, nobody listens, and jobs of one name make one transition, without keys, checkpoints
-- and the like. Most calls are such, and are served by a few lines that write the same as writeback.lua. They return
-- nothing, and have changed nothing, if the case is not plain; then the rest of the script serves it. What these lines
-- write and what writeback.lua writes must be changed together: tests compare them key by key, and both to lifecycle.

-- Whether claims or delays are over.
local function is_due()
  local moment = string.format('%.0f', now)
  return redis.call('ZCOUNT', key('leases'), '-inf', moment) > 0
    or redis.call('ZCOUNT', key('delayed'), '-inf', moment) > 0
end

-- Whether somebody listens to events of this kind.
local function is_heard(kind)
  return redis.call('PUBSUB', 'SHARDNUMSUB', key('events', kind))[2] > 0
end
