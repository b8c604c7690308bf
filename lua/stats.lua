-- Count the jobs by name and state.
--
-- KEYS: 1 the board
-- ARGV: none
-- Returns: MORE (call again), or OK; for each name the name and its delayed, unclaimed, claimed and trashed jobs;
--       the age of the oldest unclaimed job in microseconds, or -1
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote

if expire_and_promote('100') then
  return {'MORE'}
end

-- Sequences grow with time, so the oldest job is the first one of a priority. A member outside of all priorities is no
-- job's place, and is skipped.
local function oldest_of(name)
  local oldest, low = nil, -PRIORITIES * PLACES_OF_PRIORITY
  for _ = 1, PRIORITIES do
    local head = redis.call(
      'ZRANGEBYSCORE', state_index('UNCLAIMED', name), decimal(low), '(0', 'WITHSCORES', 'LIMIT', 0, 1)
    if not head[1] then
      break
    end
    local score = tonumber(head[2])
    local sequence = score % PLACES_OF_PRIORITY
    if not oldest or sequence < oldest.sequence then
      oldest = {sequence = sequence, uuid = head[1]}
    end
    low = score - sequence + PLACES_OF_PRIORITY
  end
  return oldest
end

local counts, oldest = {}, nil
for _, name in ipairs(redis.call('ZRANGE', key('names'), 0, -1)) do
  local numbers, total = {}, 0
  for index, state in ipairs({'DELAYED', 'UNCLAIMED', 'CLAIMED', 'TRASHED'}) do
    numbers[index] = redis.call('ZCARD', state_index(state, name))
    total = total + numbers[index]
  end
  if total > 0 then
    counts[#counts + 1] = name
    counts[#counts + 1] = numbers
  end
  local head = numbers[2] > 0 and oldest_of(name)
  if head and (not oldest or head.sequence < oldest.sequence) then
    oldest = head
  end
end
local job = oldest and load(oldest.uuid)
return {'OK', counts, job and now - job.created or -1}
