#!lua flags=allow-oom
-- Delete what is not visible any more.
--
-- KEYS: 1 the board
-- ARGV: 1 how many things at most; of jobs that were completed together all go, so up to 99 more
-- Returns: OK; how many were deleted; the limits of whose lanes not all were looked at, or whose pause has ended, as
--       limits.lua returns them; and the present moment
-- A repeat finds less to delete.
--
-- include: arming
-- include: expire_and_promote
-- include: prune_completed
-- include: rescue
-- include: entities
-- include: limits
-- include: paused

expire_and_promote('50')
rescue_claims()
forget_gone()

local STATES = {'DELAYED', 'BLOCKED', 'UNCLAIMED', 'CLAIMED', 'COMPLETE', 'TRASHED'}
local DAY = 86400 * 1000000
local most = tonumber(ARGV[1])
local count = prune_completed(math.min(most, 1000))
count = count + forget_keys(math.max(0, math.min(most - count, 200)))

local seen = redis.call('HGETALL', key('seen'))
for index = 1, #seen, 2 do
  local when, ttl = decode_seen(seen[index + 1])
  -- A value that can't be read belongs to nobody who still renews it.
  if count < most and (not when or when + ttl + DAY <= now) then
    redis.call('HDEL', key('seen'), seen[index])
    redis.call('HDEL', key('entities'), seen[index])
    count = count + 1
  end
end

-- An earlier version ends a pause, and leaves what is known of it.
local paused = paused_names()
local pauses = redis.call('HGETALL', key('pauses'))
for index = 1, #pauses, 2 do
  if not paused[pauses[index]] then
    redis.call('HDEL', key('pauses'), pauses[index])
  end
end

-- A hundred names at a time, from where the last call ended, because many names may be in use.
local after = redis.call('HGET', key('swept'), 'tidied') or ''
local names = redis.call('ZRANGEBYLEX', key('names'), '(' .. after, '+', 'LIMIT', '0', '100')
redis.call('HSET', key('swept'), 'tidied', #names == 100 and names[100] or '')
for _, name in ipairs(names) do
  local indexes = {}
  for index, state in ipairs(STATES) do
    indexes[index] = state_index(state, name)
  end
  if redis.call('EXISTS', unpack(indexes)) == 0 then
    redis.call('ZREM', key('names'), name)
    redis.call('ZREM', key('heads'), name)
  end
end
-- The rate of a lane whose moment is over is as one that never began.
local rates = redis.call('ZRANGEBYSCORE', key('rates'), '-inf', now_text, 'LIMIT', 0, 100)
if #rates > 0 then
  redis.call('ZREM', key('rates'), unpack(rates))
end
-- What a lane has offered is nothing once none of its jobs is live.
for _, lane in ipairs(redis.call('ZRANDMEMBER', key('offered'), 100)) do
  if not redis.call('ZSCORE', key('lanes'), lane) then
    redis.call('ZREM', key('offered'), lane)
  end
end

local found, limits = {}, redis.call('HGETALL', key('limits'))
for at = 1, #limits, 2 do
  local limit = decode_limit(limits[at + 1])
  if limit and (limit.pending or limit.paused_until and limit.paused_until * 1000000 <= now) then
    found[#found + 1] = limits[at]
    found[#found + 1] = limits[at + 1]
  end
end
return {'OK', count, found, now_text}
