#!lua
-- Keep a signal for a live job; one that waits for it waits no longer.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, the signal's name, who or nil]; 2 the value
-- Returns: NEWER and the uuid, if it is of a newer format, or OK, and DONE, REPEATED or MISSING
-- A repeat finds the signal.
--
-- `signals:UUID` (a hash) has of each signal, by its name, the moment and the value.
--
-- include: expire_and_promote

expire_and_promote('50')

local request = cmsgpack.unpack(ARGV[1])
local uuid, name = request[1], request[2]
local job = expire_or_promote(load_any(uuid))
if newer[uuid] then
  return {'NEWER', uuid}
end

local function keep_signal()
  if not job or not is_live(job) then
    return 'MISSING'
  end
  take_keys(job)
  if redis.call('HSETNX', key('signals', uuid), name, cmsgpack.pack(now, ARGV[2])) == 0 then
    return 'REPEATED'
  end
  if job.state == 'BLOCKED' and job.signal == name then
    end_signal(job, place_of(now, job.priority))
  end
  record_event(job, 'SIGNALLED', request[3], nil, name)
  return 'DONE'
end

local outcome = keep_signal()
write_back()
return {'OK', outcome}
