#!lua flags=allow-oom
-- Move jobs to the trash, with their reasons.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[uuid, who, token or nil for an operator, reason or nil, error or nil], ...]
-- Returns: NEWER and the uuid, if an operator's job is of a newer format, or OK, and for each DONE, REPEATED, LOST or
--       what is lost (see fence.lua)
-- A repeat finds the job in the trash, or the token in its history.
--
-- include: expire_and_promote
-- include: fence

expire_and_promote('50')

local function trash_by_force(item)
  local job = expire_or_promote(load(item[1]))
  if not job or not is_live(job) then
    job = load_any(item[1])
    return job and job.state == 'TRASHED' and 'REPEATED' or lost(job)
  end
  set_reason(job, item[4], item[5], true)
  trash(job, item[2], job.state == 'CLAIMED' and job.token, item[4])
  return 'DONE'
end

local function trash_fenced(item)
  local job = fenced_job(item)
  if not job then
    return repeated_or_lost(item, {TRASHED = true})
  end
  set_reason(job, item[4], item[5], true)
  trash(job, item[2], item[3], item[4])
  return 'DONE'
end

local ends = cmsgpack.unpack(ARGV[1])
check_fences(ends)
local answers = {}
for _, item in ipairs(ends) do
  if not item[3] and newer[item[1]] then
    write_back()
    return {'NEWER', item[1]}
  end
end
for index, item in ipairs(ends) do
  answers[index] = item[3] and trash_fenced(item) or trash_by_force(item)
end
write_back()
return {'OK', answers}
