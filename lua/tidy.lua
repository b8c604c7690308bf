#!lua flags=allow-oom
-- Delete what nobody can see any more.
--
-- KEYS: 1 the board
-- ARGV: 1 how many things at most
-- Returns: OK, and how many it were
-- A repeat finds less to delete.
--
-- include: settle
-- include: prune
-- include: sweep
-- include: entities

settle('50')
sweep()

local STATES = {'DELAYED', 'UNCLAIMED', 'CLAIMED', 'COMPLETE', 'TRASHED'}
local DAY = 86400 * 1000000
local most = tonumber(ARGV[1])
local count = prune(math.min(most, 1000))

local seen = redis.call('HGETALL', key('seen'))
for index = 1, #seen, 2 do
  local when, ttl = unfold_seen(seen[index + 1])
  -- What can't be read is of nobody who still renews it.
  if count < most and (not when or when + ttl + DAY <= now) then
    redis.call('HDEL', key('seen'), seen[index])
    redis.call('HDEL', key('entities'), seen[index])
    count = count + 1
  end
end

-- A hundred names at a time, each time from where the last one ended: there may be more that are in use.
local after = redis.call('HGET', key('swept'), 'tidied') or ''
local names = redis.call('ZRANGEBYLEX', key('names'), '(' .. after, '+', 'LIMIT', '0', '100')
redis.call('HSET', key('swept'), 'tidied', #names == 100 and names[100] or '')
for _, name in ipairs(names) do
  local orders = {}
  for index, state in ipairs(STATES) do
    orders[index] = order(state, name)
  end
  if redis.call('EXISTS', unpack(orders)) == 0 then
    redis.call('ZREM', key('names'), name)
    redis.call('ZREM', key('heads'), name)
  end
end
return {'OK', count}
