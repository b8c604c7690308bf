#!lua flags=allow-oom
-- Set jobs aside with their reasons.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[uuid, who, token or nil for an operator's, reason or nil, error or nil], ...]
-- Returns: NEWER and the uuid, if an operator's is of a newer format, or OK, and for each DONE, REPEATED or LOST
-- A repeat finds the job in the trash, or the token in its history.
--
-- include: settle
-- include: holds

settle('50')

local function trash_by_force(item)
  local job = settle_job(load(item[1]))
  if not job or not is_live(job) then
    return job and job.state == 'TRASHED' and 'REPEATED' or 'LOST'
  end
  explain(job, item[4], item[5], true)
  discard(job, item[2], job.state == 'CLAIMED' and job.token, item[4])
  return 'DONE'
end

local function trash(item)
  local job = held_by(item)
  if not job then
    return repeated_or_lost(item, {TRASHED = true})
  end
  explain(job, item[4], item[5], true)
  discard(job, item[2], item[3], item[4])
  return 'DONE'
end

local ends = cmsgpack.unpack(ARGV[1])
heed(ends)
local answers = {}
for _, item in ipairs(ends) do
  if not item[3] and newer[item[1]] then
    flush()
    return {'NEWER', item[1]}
  end
end
for index, item in ipairs(ends) do
  answers[index] = item[3] and trash(item) or not item[3] and trash_by_force(item)
end
flush()
return {'OK', answers}
