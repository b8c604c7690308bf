-- include: records
-- What happens to a job: an entry of its history, and an event for those who listen.

-- Have a job written whose record changes, but that nothing has happened to.
local function keep(job)
  if not is_changed[job.uuid] then
    is_changed[job.uuid] = true
    changed[#changed + 1] = job
  end
end

local function mark_changed(job)
  keep(job)
  job.modified = now
end

-- Publish on the channel of this kind, if anybody listens there. Events of one kind in a row are one message.
local function announce(kind, uuid, name, entry)
  if has_listeners[kind] == nil then
    has_listeners[kind] = redis.call('PUBSUB', 'SHARDNUMSUB', key('events', kind))[2] > 0
  end
  if not has_listeners[kind] then
    return
  end
  local message = events[#events]
  if not message or message.kind ~= kind then
    message = {kind = kind}
    events[#events + 1] = message
  end
  message[#message + 1] = cmsgpack.pack(uuid, name) .. entry
end

-- In a batch, most entries are the same as the one before.
local function history_entry(kind, who, token, reason)
  local last = last_entry
  if last.kind ~= kind or last.who ~= who or last.token ~= token or last.reason ~= reason then
    last.kind, last.who, last.token, last.reason = kind, who, token, reason
    last.packed = cmsgpack.pack(kind, now, who or false, token or false, reason or false)
  end
  return last.packed
end

-- An event without an entry in the history.
local function announce_change(job, kind)
  mark_changed(job)
  announce(kind, job.uuid, job.name, history_entry(kind, job.owner, job.token))
end

-- An entry of the history, and its event.
local function record_event(job, kind, who, token, reason)
  mark_changed(job)
  local uuid, entry = job.uuid, history_entry(kind, who or nil, token or nil, reason or nil)
  local history = histories[uuid] .. entry
  if job.history_length < HISTORY_LENGTH then
    job.history_length = job.history_length + 1
  else
    local readable, rest = pcall(cmsgpack.unpack_limit, history, ENTRY_PARTS)
    history = readable and rest > 0 and string.sub(history, rest + 1) or history
  end
  histories[uuid] = history
  announce(kind, uuid, job.name, entry)
end

local function publish()
  if #events > 0 then
    for _, message in ipairs(events) do
      redis.call('SPUBLISH', key('events', message.kind), table.concat(message))
    end
    events = {}
  end
end
