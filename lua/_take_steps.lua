-- include: post
-- include: schedules
-- Steps of schedules, taken as step_schedules.lua and change_schedules.lua say.

settle('100')

local steps = cmsgpack.unpack(ARGV[1])
local items, postings = {}, {}

local function versions()
  local ids, found = {}, {}
  for index, step in ipairs(steps) do
    ids[index] = step[1]
  end
  for index, value in ipairs(redis.call('HMGET', key('schedules'), unpack(ids))) do
    found[ids[index]] = unfold_schedule(value)
  end
  return found
end

local function take(step, at)
  if step[3] then
    write_schedule(step[1], step[3], step[4], ARGV[at])
  else
    redis.call('HDEL', key('schedules'), step[1])
    redis.call('ZREM', key('due'), step[1])
  end
  for index, item in ipairs(step[5]) do
    items[#items + 1] = item
    postings[#postings + 1] = ARGV[at + index]
  end
end

local function announce_all(step)
  for _, told in ipairs(step[6]) do
    announce(told[1], told[2] or false, told[3] or false, line_of(told[1], told[4], nil, told[5]))
  end
end

local found, verdicts, taken, at = versions(), {}, {}, 2
for index, step in ipairs(steps) do
  local id, after, version = step[1], step[2], step[3]
  if found[id] == version then
    verdicts[index] = 'REPEATED'
  elseif found[id] ~= after then
    verdicts[index] = 'LOST'
  else
    verdicts[index] = 'DONE'
    found[id] = version
    taken[#taken + 1] = step
    take(step, at)
  end
  at = at + 1 + #step[5]
end
if #items > 0 then
  post(items, postings)
end
for _, step in ipairs(taken) do
  announce_all(step)
end
flush()
