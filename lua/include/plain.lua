-- include: clock
-- include: keys
-- The plain case: nothing is due, nobody listens, and jobs of one name make one transition, without keys, checkpoints
-- and the like. Most calls are such, and are served by a few lines that write the same as writeback.lua. They return
-- nothing, and have changed nothing, if the case is not plain; then the rest of the script serves it. Whoever changes
-- what is written changes both: tests compare them key by key, and hold both to lifecycle.py.

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
