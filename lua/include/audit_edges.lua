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

  -- Look for an OPEN parent that has ended, and of which no mark tells its children.
  local function check_open_parents(job)
    local parents = redis.call('ZRANGE', key('parents', job.uuid), 0, MAX_LOOKS - 1)
    local ends = #parents > 0 and redis.call('HMGET', key('ends', job.uuid), unpack(parents)) or {}
    local open = {}
    for number, parent in ipairs(parents) do
      open[#open + 1] = not ends[number] and parent or nil
    end
    local records = #open > 0 and redis.call('HMGET', key('jobs'), unpack(open)) or {}
    for number, parent in ipairs(open) do
      local its = not records[number] or load(parent)
      local has_ended = its == true or its and not is_live(its)
      if has_ended and not mark_of(parent) then
        report(job.uuid, 'it waits for a parent that has ended: ' .. parent)
        if repair then
          its = load_any(parent)
          local outcome, name, result, is_cut = unpack(its and outcome_of(its) or {'GONE', '', false, false})
          write_mark(parent, {outcome, name, result, is_cut, '', now})
        end
      end
    end
  end

  -- Edges of which nobody can read how the parent has ended.
  local function check_ends(job)
    local parents = redis.call('ZRANGE', key('parents', job.uuid), 0, MAX_LOOKS - 1)
    local ends = #parents > 0 and redis.call('HMGET', key('ends', job.uuid), unpack(parents)) or {}
    for number, parent in ipairs(parents) do
      local ending, is_readable = nil, true
      if ends[number] then
        ending, is_readable = ending_in(ends[number], parent)
      end
      if not is_readable then
        report(job.uuid, 'how its parent has ended can not be read: ' .. parent)
        if repair then
          write_end(job.uuid, parent, ending)
        end
      end
    end
  end

  local function is_held_back(job)
    if job.graph then
      return true
    end
    local wish = job.if_failed or 'wait'
    local has_failed = redis.call('EXISTS', key('failed', job.uuid)) == 1
    if wish ~= 'run' and redis.call('EXISTS', key('gone', job.uuid)) == 1 or wish == 'cancel' and has_failed then
      return false
    end
    return wish == 'wait' and has_failed
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
    if job.has_keys then
      check_ends(job)
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
    check_open_parents(job)
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
    for number, uuid in ipairs(uuids) do
      if not records[number] then
        report('', 'there are edges, steps or signals of a job that is gone: ' .. uuid)
        if repair then
          redis.call('ZADD', key('own_keys'), now_text, uuid)
        end
      end
    end
    return #owners == 2 * CHUNK and decimal(cursor + CHUNK)
  end

  return check_ties, check_marks, check_owners
end)()
