-- include: edges
-- The part of an audit that checks what jobs wait for. audit.lua defines `repair`, `report` and CHUNK.

-- A function of its own, since a function of Lua has at most 200 variables.
local check_ties, check_marks, check_owners = (function()
  -- How many parents of a job an audit looks at, at most.
  local MAX_LOOKS = 1000

  local function settle_again(job)
    table.insert(relatives.unsettled, job)
    relatives.is_awaited = true
  end

  -- The first parents of a job, and what its edges say of how they have ended.
  local function edges_of(uuid)
    local parents = redis.call('ZRANGE', key('parents', uuid), 0, MAX_LOOKS - 1)
    return parents, #parents > 0 and redis.call('HMGET', key('ends', uuid), unpack(parents)) or {}
  end

  -- Look for parents that stand otherwise than the edges say, and of which no mark tells their children.
  local function check_parents(job, parents, ends)
    local suspects, said = {}, {}
    for number, parent in ipairs(parents) do
      local outcome = ends[number] and ending_in(ends[number], parent)[1] or 'OPEN'
      if outcome == 'OPEN' or outcome == 'FAILED' then
        suspects[#suspects + 1], said[parent] = parent, outcome
      end
    end
    fetch(suspects)
    fetch_finished(suspects)
    for _, parent in ipairs(suspects) do
      local its = jobs[parent]
      local standing = its and outcome_of(its) or {'GONE', '', false, false}
      -- One that can't be read is told once it is in the trash.
      local is_known = its and not newer[parent] or redis.call('HEXISTS', key('jobs'), parent) == 0
      if is_known and standing[1] ~= said[parent] and not mark_of(parent) then
        report(job.uuid, said[parent] == 'OPEN' and 'it waits for a parent that has ended: ' .. parent
          or 'it waits for a parent in the trash, which is not there: ' .. parent)
        if repair then
          write_mark(parent, {standing[1], standing[2], standing[3], standing[4], '', now})
        end
      end
    end
  end

  local function members_of(kind, uuid)
    local is_member = {}
    for _, parent in ipairs(redis.call('SMEMBERS', key(kind, uuid))) do
      is_member[parent] = true
    end
    return is_member
  end

  -- Edges of which nobody can read how the parent has ended, or that are not counted as they say.
  local function check_ends(job, parents, ends)
    local is_listed = {FAILED = members_of('failed', job.uuid), GONE = members_of('gone', job.uuid)}
    for number, parent in ipairs(parents) do
      local ending, is_readable = {'OPEN', '', false, false}, true
      if ends[number] then
        ending, is_readable = ending_in(ends[number], parent)
      end
      if not is_readable then
        report(job.uuid, 'how its parent has ended can not be read: ' .. parent)
      elseif (is_listed.FAILED[parent] or false) ~= (ending[1] == 'FAILED')
        or (is_listed.GONE[parent] or false) ~= (ending[1] == 'GONE') then
        is_readable = false
        report(job.uuid, 'its parent is not counted as it has ended: ' .. parent)
      end
      if not is_readable and repair then
        write_end(job.uuid, parent, ending)
      end
    end
  end

  -- What is counted of jobs that are no parents.
  local function check_strays(job, parents, ends)
    if #parents == MAX_LOOKS then
      return
    end
    local is_parent, ended = {}, 0
    for number, parent in ipairs(parents) do
      is_parent[parent], ended = true, ended + (ends[number] and 1 or 0)
    end
    local function check(parent)
      if not is_parent[parent] then
        is_parent[parent] = true
        report(job.uuid, 'a job counts as its parent that is none: ' .. parent)
        if repair then
          write_end(job.uuid, parent, {'OPEN'})
        end
      end
    end
    if redis.call('HLEN', key('ends', job.uuid)) > ended then
      local all = redis.call('HGETALL', key('ends', job.uuid))
      for at = 1, #all, 2 do
        check(all[at])
      end
    end
    for _, kind in ipairs({'failed', 'gone'}) do
      for parent in pairs(members_of(kind, job.uuid)) do
        check(parent)
      end
    end
  end

  local function is_held_back(job)
    if job.graph then
      return true
    end
    local wish = job.if_failed or 'wait'
    local has_failed = redis.call('EXISTS', key('failed', job.uuid)) == 1
    if wish ~= 'run' and redis.call('EXISTS', key('gone', job.uuid)) == 1
      or wish == 'cancel' and has_failed and job.state ~= 'TRASHED' then
      return false
    end
    return wish ~= 'run' and has_failed
      or redis.call('ZCARD', key('parents', job.uuid)) > redis.call('HLEN', key('ends', job.uuid))
  end

  -- What a job waits for, and whether it may go on.
  local function check_ties(job)
    if job.state == 'BLOCKED' and not (job.has_parents or job.signal or job.lane) then
      report(job.uuid, 'it is BLOCKED, but waits for nothing')
      if repair then
        job.state = 'UNCLAIMED'
        mark_changed(job)
      end
    end
    local parents, ends = edges_of(job.uuid)
    if job.has_keys then
      check_ends(job, parents, ends)
      check_strays(job, parents, ends)
    end
    if not job.has_parents then
      return
    end
    if not is_held_back(job) then
      report(job.uuid, 'it waits for parents, none of which holds it back')
      if repair then
        settle_again(job)
      end
    elseif job.graph and not mark_of('graph:' .. job.graph) then
      report(job.uuid, 'it waits for a graph that nobody completes: ' .. job.graph)
      if repair then
        end_graph(job.graph, redis.call('MGET', key('graph', job.graph))[1] or 'GONE')
      end
    end
    check_parents(job, parents, ends)
  end

  -- Marks that can't be read, or that no timer has.
  local function check_marks(cursor)
    local found = redis.call('HSCAN', key('marks'), cursor, 'COUNT', CHUNK)
    for at = 1, #found[2], 2 do
      local parent, mark = found[2][at], decode_mark(found[2][at + 1])
      local timer = redis.call('ZSCORE', key('delayed'), mark_timer(parent))
      if not mark then
        report('', 'a mark can not be read: ' .. parent)
        if repair then
          quarantine('marks', parent, found[2][at + 1])
          redis.call('ZREM', key('delayed'), mark_timer(parent))
        end
      elseif tonumber(timer or '') ~= mark[6] then
        report('', 'the timer of a mark is missing, or set for another moment: ' .. parent)
        if repair then
          redis.call('ZADD', key('delayed'), decimal(mark[6]), mark_timer(parent))
        end
      end
    end
    return found[1] ~= '0' and found[1]
  end

  -- Edges, steps and signals of jobs that are gone. The cursor is a rank from the end, where those of live jobs are.
  local function check_owners(cursor)
    local owners = redis.call('ZRANGE', key('own_keys'), -cursor - CHUNK, -cursor - 1, 'WITHSCORES')
    local uuids = {}
    for at = 1, #owners, 2 do
      if owners[at + 1] == 'inf' then
        uuids[#uuids + 1] = owners[at]
      end
    end
    local records = #uuids > 0 and redis.call('HMGET', key('jobs'), unpack(uuids)) or {}
    local moved_on = 0
    for number, uuid in ipairs(uuids) do
      if not records[number] then
        report('', 'there are edges, steps or signals of a job that is gone: ' .. uuid)
        if repair then
          redis.call('ZADD', key('own_keys'), now_text, uuid)
          moved_on = moved_on + 1
        end
      end
    end
    return #owners == 2 * CHUNK and decimal(cursor + CHUNK - moved_on)
  end

  return check_ties, check_marks, check_owners
end)()
