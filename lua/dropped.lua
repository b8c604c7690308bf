-- Read which jobs were given up with their graphs.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, ...]
-- Returns: OK, and for each why it is as it is, or an empty string; also of one that is hidden
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote

expire_and_promote('50')

local uuids, reasons = cmsgpack.unpack(ARGV[1]), {}
fetch(uuids)
fetch_finished(uuids)
for number, uuid in ipairs(uuids) do
  local job = jobs[uuid]
  reasons[number] = job and job.state == 'COMPLETE' and job.reason or ''
end
return {'OK', reasons}
