#!lua
-- Bring a board of layout 1, 2 or 3 to layout 4, a part of the board at a time. Nobody may use the board meanwhile.
--
-- KEYS: 1 the board
-- ARGV: 1 the cursor that the last call returned (an empty string at first); 2 what stands for the number of the layout
--       while this goes on, which the first call writes; 3 the number of layout 4, which the last call writes
-- Returns: OK and the cursor (an empty string at the end)
-- A repeat changes only what is still as layout 1 has it; once the board has layout 4, it changes nothing.
--
-- Layout 1 had the uuids of jobs in its indexes, and by their sequences. It had other names for three keys; each of its
-- scripts reads one of these before it changes jobs or schedules. A string takes the place of each: so a client of
-- layout 1 that is still connected gets an error for each change, and changes nothing.
--
-- Layout 2 had no lanes and no limits, and layout 3 no edges, steps and moments, and nothing else that is different:
-- the first call writes the number. Clients of layout 2 leave jobs with lanes alone, as those of a newer format.
--
-- include: transitions

local CHUNK = 200
local NEW_NAMES = {records = 'jobs', schedules = 'stored_schedules', retained = 'completed'}

local function rename_keys()
  for old, new in pairs(NEW_NAMES) do
    if not redis.call('MGET', key(old))[1] then
      if redis.call('EXISTS', key(old)) == 1 then
        redis.call('RENAME', key(old), key(new))
      end
      redis.call('SET', key(old), 'renamed')
    end
  end
end

-- Give a job its place, and return its record.
local function move(job)
  job.place = place_of(math.max(job.created, job.run_at or 0), job.priority)
  local index = state_index(job.state, job.name)
  redis.call('ZREM', index, job.uuid)
  redis.call('ZADD', index, job.place, member_of(job.uuid, job.sequence))
  return encode(job)
end

local function move_records(cursor)
  local found = redis.call('HSCAN', key('jobs'), cursor, 'COUNT', CHUNK)
  for at = 1, #found[2], 2 do
    local uuid, value = found[2][at], found[2][at + 1]
    local job = decode(uuid, value)
    -- What can't be read is left to an audit.
    if job and not newer[uuid] then
      redis.call('HSET', key('jobs'), uuid, move(job) .. histories[uuid])
    end
  end
  return found[1] ~= '0' and found[1]
end

local function move_heads(cursor)
  local last = cursor + CHUNK - 1
  local names = redis.call('ZRANGE', key('names'), cursor, last)
  for _, name in ipairs(names) do
    set_head(name)
  end
  return #names == CHUNK and decimal(last + 1)
end

-- Jobs that were completed together, and have not expired, as `completed` has them.
local function move_completed(uuids)
  local members = {}
  fetch_finished(uuids)
  for _, uuid in ipairs(uuids) do
    local job = jobs[uuid]
    if job and not newer[uuid] then
      redis.call('SET', key('done', uuid), cmsgpack.pack(move(job), histories[uuid], unpack(finished[uuid])), 'KEEPTTL')
      members[#members + 1] = member_of(uuid, job.sequence)
    end
  end
  return members
end

local function move_retained(cursor)
  local found = redis.call('ZRANGE', key('completed'), cursor, cursor + CHUNK - 1, 'WITHSCORES')
  local moved_jobs, rank = 0, tonumber(cursor)
  for at = 1, #found, 2 do
    local name, list = string.match(found[at], '^([^\n]*)\n(.*)$')
    rank = rank + 1
    -- From layout 2 on a sequence comes first.
    if list and string.sub(list, 9, 9) == '-' then
      local uuids = {}
      for from = 1, #list, 36 do
        uuids[#uuids + 1] = string.sub(list, from, from + 35)
      end
      local members = move_completed(uuids)
      redis.call('ZREM', key('completed'), found[at])
      if #members > 0 then
        redis.call('ZADD', key('completed'), found[at + 1], field(name, table.concat(members)))
      else
        rank = rank - 1
      end
      moved_jobs = moved_jobs + #uuids
    end
    if moved_jobs >= CHUNK then
      return decimal(rank)
    end
  end
  return #found == 2 * CHUNK and decimal(rank)
end

local PHASES = {move_records, move_heads, move_retained}

local found = redis.call('MGET', key('layout'))[1]
if found == ARGV[3] then
  return {'OK', ''}
end
if found == '2' or found == '3' then
  redis.call('SET', key('layout'), ARGV[3])
  return {'OK', ''}
end
local phase, cursor = string.match(ARGV[1], '^(%d) (%d+)$')
if not phase then
  rename_keys()
  redis.call('SET', key('layout'), ARGV[2])
end
phase, cursor = tonumber(phase or 1), cursor or '0'
local further = PHASES[phase](cursor)
if not further then
  phase, further = phase + 1, '0'
end
if phase > #PHASES then
  redis.call('DEL', key('swept'))
  redis.call('SET', key('layout'), ARGV[3])
  return {'OK', ''}
end
return {'OK', phase .. ' ' .. further}
