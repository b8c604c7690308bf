-- include: board
-- Jobs that have keys of their own beside their records: edges, steps, signals. `own_keys` (a sorted set) has each of
-- them, with the moment at which the job is forgotten: +inf while it has not ended.

-- How many parents a call lets forget a child at most.
local MAX_PARENTS = 1000
-- After so many calls those of any job are gone.
local MAX_PARTS = 11
local KINDS = {'parents', 'ends', 'failed', 'gone', 'children', 'steps', 'signals'}

-- Delete the keys of one job, or as much as a call may; returns whether all are gone. Its children stay, if told so.
local function delete_keys(uuid, has_to_tell)
  local parents = redis.call('ZRANGE', key('parents', uuid), 0, MAX_PARENTS - 1)
  for _, parent in ipairs(parents) do
    redis.call('ZREM', key('children', parent), uuid)
  end
  if #parents == MAX_PARENTS then
    redis.call('ZREM', key('parents', uuid), unpack(parents))
    return false, #parents
  end
  local keys = {}
  for _, kind in ipairs(KINDS) do
    keys[#keys + 1] = not (has_to_tell and kind == 'children') and key(kind, uuid) or nil
  end
  redis.call('DEL', unpack(keys))
  return true, #parents
end

-- Delete what is left of an earlier job of this uuid, which is forgotten, before a new one gets keys of its own. Of its
-- children, some may still be to be told that it is gone.
local function delete_remains(uuid)
  if not redis.call('ZSCORE', key('own_keys'), uuid) then
    return
  end
  local has_to_tell, is_done = redis.call('HEXISTS', key('marks'), uuid) == 1, false
  for _ = 1, MAX_PARTS do
    is_done = is_done or delete_keys(uuid, has_to_tell)
  end
end

-- Delete the keys of up to `most` jobs that are forgotten; returns how many jobs these were. The children of a parent
-- must know how that has ended before.
local function forget_keys(most)
  local owners = redis.call('ZRANGEBYSCORE', key('own_keys'), '-inf', now_text, 'LIMIT', 0, most)
  local marks = #owners > 0 and redis.call('HMGET', key('marks'), unpack(owners)) or {}
  local forgotten, parents = {}, 0
  for number, uuid in ipairs(owners) do
    if marks[number] then
      redis.call('ZADD', key('own_keys'), string.format('%.0f', now + RETRY_WINDOW), uuid)
    else
      local is_done, count = delete_keys(uuid)
      parents = parents + count
      forgotten[#forgotten + 1] = is_done and uuid or nil
    end
    if parents >= MAX_PARENTS then
      break
    end
  end
  if #forgotten > 0 then
    redis.call('ZREM', key('own_keys'), unpack(forgotten))
  end
  return #forgotten
end
