-- include: post_jobs
-- include: schedules
-- Applies steps of schedules as step_schedules.lua and change_schedules.lua describe.

expire_and_promote('100')

local steps = cmsgpack.unpack(ARGV[1])
local items, postings = {}, {}

local function stored_versions()
  local ids, found = {}, {}
  for index, step in ipairs(steps) do
    ids[index] = step[1]
  end
  for index, value in ipairs(redis.call('HMGET', key('stored_schedules'), unpack(ids))) do
    found[ids[index]] = decode_schedule(value)
  end
  return found
end

local function apply_step(step, at)
  if step[3] then
    write_schedule(step[1], step[3], step[4], ARGV[at])
  else
    redis.call('HDEL', key('stored_schedules'), step[1])
    redis.call('ZREM', key('due'), step[1])
  end
  for index, item in ipairs(step[5]) do
    items[#items + 1] = item
    postings[#postings + 1] = ARGV[at + index]
  end
end

local function announce_events(step)
  for _, event in ipairs(step[6]) do
    announce(event[1], event[2] or false, event[3] or false, history_entry(event[1], event[4], nil, event[5]))
  end
end

local found, verdicts, applied, at = stored_versions(), {}, {}, 2
for index, step in ipairs(steps) do
  local id, after, version = step[1], step[2], step[3]
  if found[id] == version then
    verdicts[index] = 'REPEATED'
  elseif found[id] ~= after then
    verdicts[index] = 'LOST'
  else
    verdicts[index] = 'DONE'
    found[id] = version
    applied[#applied + 1] = step
    apply_step(step, at)
  end
  at = at + 1 + #step[5]
end
if #items > 0 then
  -- What meets a job that it can't replace is passed over.
  fetch_all(items)
  local outcomes, found_jobs, _, _, placed = plan(items, postings)
  apply_plan(items, postings, outcomes, found_jobs, placed)
end
for _, step in ipairs(applied) do
  announce_events(step)
end
write_back()
