#!lua flags=allow-oom
-- Find contradictions, a part of the board at a time; repair them if the client asks for it.
--
-- KEYS: 1 the board
-- ARGV: 1 whether to repair (1 or 0); 2 the cursor that the last call returned (an empty string at first)
-- Returns: OK, the cursor (an empty string at the end), uuid (or an empty string) and problem of each finding, and the
--       uuid of a job of a newer format, which is not checked, or false
-- A repeat finds what is left; each repair is atomic with its finding.
--
-- Records are checked first, and are the truth; then the indexes, which must match them.
--
-- include: expire_and_promote

expire_and_promote('50')

local STATES = {'DELAYED', 'BLOCKED', 'UNCLAIMED', 'CLAIMED', 'COMPLETE', 'TRASHED'}
local CHUNK = 200
local repair = ARGV[1] == '1'
local findings, skipped = {}, nil

local function report(uuid, problem)
  findings[#findings + 1] = uuid
  findings[#findings + 1] = problem
end

-- Move a value that can't be read out of its hash, and keep it.
local function quarantine(hash, name, value)
  redis.call('HSET', key('unreadable'), name, value)
  redis.call('HDEL', key(hash), name)
end

-- include: audit_schedules
-- include: audit_books

-- include: audit_lanes

-- Remove a job from all indexes; `write_back` then adds it as a new one.
reindex = function(job)
  for _, state in ipairs(STATES) do
    redis.call('ZREM', state_index(state, job.name), member_of(job.uuid, job.sequence))
  end
  redis.call('ZREM', key('leases'), job.uuid)
  redis.call('ZREM', key('delayed'), job.uuid)
  redis.call('ZADD', key('names'), 'NX', 0, job.name)
  before[job.uuid] = nil
  if job.lane then
    leave_lane(job)
  end
  mark_changed(job)
end

-- include: audit_records
-- include: audit_indexes
-- include: audit_steps

local PHASES = {
  check_records, check_lanes, check_limits, check_indexes, check_timers, check_keys, check_counter, check_schedules,
  check_due, check_entities, check_book_entries, check_entry_names, check_pauses, check_marks, check_owners,
  check_steps,
}
local phase, cursor = string.match(ARGV[2], '^(%d+) (.*)$')
phase, cursor = tonumber(phase or 1), cursor or '0'
local further = PHASES[phase](cursor)
write_back()
if not further then
  phase, further = phase + 1, '0'
end
return {'OK', phase <= #PHASES and phase .. ' ' .. further or '', findings, skipped or false}
