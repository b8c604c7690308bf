-- Count the jobs by name and state.
--
-- KEYS: 1 the board
-- ARGV: none
-- Returns: MORE (call again), or OK; for each name the name and its delayed, unclaimed, claimed, trashed and
--       blocked jobs; the microseconds since the unclaimed job that is due longest became due, or -1
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote

if expire_and_promote('100') then
  return {'MORE'}
end

-- When the first of the unclaimed jobs of a name became due: the first one of a priority. A member outside of all
-- priorities is no job's place, and is skipped.
local function first_due(name)
  local first = math.huge
  for priority = 1, PRIORITIES do
    local low = (NORMAL - priority) * PLACES_OF_PRIORITY
    local head = redis.call(
      'ZRANGEBYSCORE', state_index('UNCLAIMED', name), decimal(low), '(' .. decimal(low + PLACES_OF_PRIORITY),
      'WITHSCORES', 'LIMIT', 0, 1)
    if head[1] then
      first = math.min(first, head[2] - low + FIRST_MOMENT)
    end
  end
  return first
end

local counts, first = {}, math.huge
for _, name in ipairs(redis.call('ZRANGE', key('names'), 0, -1)) do
  local numbers, total = {}, 0
  for index, state in ipairs({'DELAYED', 'UNCLAIMED', 'CLAIMED', 'TRASHED', 'BLOCKED'}) do
    numbers[index] = redis.call('ZCARD', state_index(state, name))
    total = total + numbers[index]
  end
  if total > 0 then
    counts[#counts + 1] = name
    counts[#counts + 1] = numbers
  end
  if numbers[2] > 0 then
    first = math.min(first, first_due(name))
  end
end
return {'OK', counts, first < math.huge and math.max(0, now - first) or -1}
