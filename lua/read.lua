-- Read jobs in any state.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [uuid, ...]
-- Returns: OK, for each whether it is there (1 or 0), and those that are
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote
-- include: job_rows

expire_and_promote('50')

local uuids = cmsgpack.unpack(ARGV[1])
fetch(uuids)
for _, uuid in ipairs(uuids) do
  expire_or_promote(jobs[uuid])
end
write_back()
fetch_finished(uuids)
local there, found = {}, {}
for index, uuid in ipairs(uuids) do
  local job = jobs[uuid]
  there[index] = job and not is_hidden(job) and 1 or 0
  if there[index] == 1 then
    found[#found + 1] = job
  end
end
return {'OK', there, job_rows(found)}
