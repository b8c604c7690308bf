#!lua
-- Let a job that waits for parents wait for more.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [child, [parent, ...]]
-- Returns: NEWER and the uuid, if the child is of a newer format, or OK, and DONE, REPEATED, STARTED or MISSING
-- A repeat finds the edges.
--
-- include: link_plainly

local request = cmsgpack.unpack(ARGV[1])
local plain = link_plainly(unpack(request))
if plain then
  return {'OK', plain}
end

-- include: expire_and_promote

expire_and_promote('50')

local child, parents = unpack(request)
local uuids = {child, unpack(parents)}
fetch(uuids)
fetch_finished(uuids)
local job = expire_or_promote(jobs[child])

-- One in the trash waits for them once it is restored.
local TAKES_PARENTS = {BLOCKED = true, DELAYED = true, TRASHED = true}

local function link()
  if not job then
    return 'MISSING'
  end
  local added = {}
  for _, parent in ipairs(parents) do
    local its = expire_or_promote(jobs[parent])
    if not its or newer[parent] then
      return 'MISSING'
    end
    if not redis.call('ZSCORE', key('parents', child), parent) then
      added[#added + 1] = its
    end
  end
  if #added == 0 then
    return 'REPEATED'
  end
  if not job.has_parents or not TAKES_PARENTS[job.state] then
    return 'STARTED'
  end
  take_keys(job)
  for _, its in ipairs(added) do
    add_edge(job, its)
  end
  table.insert(relatives.unsettled, job)
  return 'DONE'
end

if newer[child] then
  return {'NEWER', child}
end
local outcome = link()
write_back()
return {'OK', outcome}
