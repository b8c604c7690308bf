-- include: jobs
-- What happened to a job: a line of its history, and an event for those who listen.

local function mark(job)
  if not is_changed[job.uuid] then
    is_changed[job.uuid] = true
    changed[#changed + 1] = job
  end
  job.modified = now
end

-- Events of one kind in a row travel as one message, on the channel of that kind, if anybody hears it.
local function announce(kind, uuid, name, line)
  if heard[kind] == nil then
    heard[kind] = redis.call('PUBSUB', 'SHARDNUMSUB', key('events', kind))[2] > 0
  end
  if not heard[kind] then
    return
  end
  local run = events[#events]
  if not run or run.kind ~= kind then
    run = {kind = kind}
    events[#events + 1] = run
  end
  run[#run + 1] = cmsgpack.pack(uuid, name) .. line
end

-- In a batch, most lines are the same as the one before.
local function line_of(kind, who, token, reason)
  if latest.kind ~= kind or latest.who ~= who or latest.token ~= token or latest.reason ~= reason then
    latest.kind, latest.who, latest.token, latest.reason = kind, who, token, reason
    latest.line = cmsgpack.pack(kind, now, who or false, token or false, reason or false)
  end
  return latest.line
end

-- An event that is kept out of the history.
local function touch(job, kind)
  mark(job)
  announce(kind, job.uuid, job.name, line_of(kind, job.owner, job.token))
end

-- A line of the history, and its event.
local function tell(job, kind, who, token, reason)
  mark(job)
  local uuid, line = job.uuid, line_of(kind, who or nil, token or nil, reason or nil)
  local lines = histories[uuid] .. line
  if job.lines < HISTORY_LENGTH then
    job.lines = job.lines + 1
  else
    local readable, rest = pcall(cmsgpack.unpack_limit, lines, LINE_PARTS)
    lines = readable and rest > 0 and string.sub(lines, rest + 1) or lines
  end
  histories[uuid] = lines
  announce(kind, uuid, job.name, line)
end

local function publish()
  if #events > 0 then
    for _, event in ipairs(events) do
      redis.call('SPUBLISH', key('events', event.kind), table.concat(event))
    end
    events = {}
  end
end
