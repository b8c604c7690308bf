#!lua
-- Let a job that waits for parents wait for more.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [child, [parent, ...], the claim under which it is asked for, if any: [child, who, token]]
-- Returns: NEWER and the uuid, if the child is of a newer format, or OK, and DONE, REPEATED, STARTED, MISSING or LOST
-- A repeat finds the edges.
--
-- include: link_plainly

local request = cmsgpack.unpack(ARGV[1])
local plain = not request[3] and link_plainly(unpack(request))
if plain then
  return {'OK', plain}
end

-- include: expire_and_promote
-- include: fence

expire_and_promote('50')

local child, parents, fence = unpack(request)
local uuids = {child, unpack(parents)}
fetch(uuids)
fetch_finished(uuids)
local job = expire_or_promote(jobs[child])
if fence then
  check_fences({fence})
end

-- One in the trash waits for them once it is restored.
local TAKES_PARENTS = {BLOCKED = true, DELAYED = true, TRASHED = true}

-- Let a claimed job wait for parents once its claim has ended; but for one that decides what becomes of jobs that wait.
local function take_parents(open)
  local wish = job.if_failed or 'wait'
  local has_failed = redis.call('EXISTS', key('failed', child)) == 1
  local is_one_lost = wish ~= 'run'
    and (redis.call('EXISTS', key('gone', child)) == 1 or wish == 'cancel' and has_failed)
  if open == 0 and (not has_failed or is_one_lost or wish == 'run') then
    return
  end
  job.has_parents, job.if_failed = true, is_one_lost and 'run' or job.if_failed
  record_event(job, 'BLOCKED', job.owner, job.token, 'it waits for other jobs')
end

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
  if fence and not fenced_job(fence) then
    return 'LOST'
  elseif not fence and (not job.has_parents or not TAKES_PARENTS[job.state]) then
    return 'STARTED'
  end
  take_keys(job)
  local open = redis.call('ZCARD', key('parents', child)) - redis.call('HLEN', key('ends', child))
  for _, its in ipairs(added) do
    open = open + (add_edge(job, its) == 'OPEN' and 1 or 0)
  end
  if fence and not job.has_parents then
    take_parents(open)
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
