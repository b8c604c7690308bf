-- include: transitions
-- The part of an audit that finds steps and signals that can't be read. audit.lua defines `repair`, `report` and CHUNK.
--
-- A step that can't be read must not run again, so its job goes to the trash. A signal is kept apart, and can be sent
-- again. A job that is claimed is left alone: its handler may be past that step, or learns of it.

-- A function of its own, since a function of Lua has at most 200 variables.
local check_steps = (function()
  -- How many bytes of steps a call reads, about.
  local MAX_STEP_BYTES = 1048576

  local function is_step(is_readable, name, at, result, more)
    return is_readable and is_text(name) and is_number(at) and is_text(result) and more == nil
  end

  local function is_signal(is_readable, at, value, more)
    return is_readable and is_number(at) and is_text(value) and more == nil
  end

  -- Check some steps of a job; returns how many there are, their bytes, and whether others are to be checked.
  local function check_some_steps(job, first)
    local steps, bytes = redis.call('LRANGE', key('steps', job.uuid), first, first + 19), 0
    for at, step in ipairs(steps) do
      bytes = bytes + #step
      if not is_step(pcall(cmsgpack.unpack, step)) then
        local problem = 'its step ' .. first + at .. ' can not be read'
        report(job.uuid, problem)
        if repair then
          set_reason(job, problem, nil, true)
          trash(job, nil, nil, job.reason)
        end
        return #steps, bytes, false
      end
    end
    return #steps, bytes, #steps == 20
  end

  local function check_signals(uuid)
    local signals = redis.call('HGETALL', key('signals', uuid))
    for at = 1, #signals, 2 do
      if not is_signal(pcall(cmsgpack.unpack, signals[at + 1])) then
        report(uuid, 'a signal that was sent to it can not be read: ' .. signals[at])
        if repair then
          redis.call('HSET', key('unreadable'), uuid .. ' ' .. signals[at], signals[at + 1])
          redis.call('HDEL', key('signals', uuid), signals[at])
        end
      end
    end
  end

  -- The cursor is the rank of a job among those with keys, from the end, where live jobs are; and a step's number.
  local function check_steps(cursor)
    local rank, first = string.match(cursor, '^(%d+) (%d+)$')
    rank, first = tonumber(rank or 0), tonumber(first or 0)
    local bytes = 0
    for _ = 1, CHUNK / 20 do
      local owner = redis.call('ZRANGE', key('own_keys'), -rank - 1, -rank - 1, 'WITHSCORES')
      if owner[2] ~= 'inf' then
        return false
      end
      local job, has_more = load(owner[1]), false
      if job and is_live(job) and job.state ~= 'CLAIMED' and not newer[job.uuid] then
        if first == 0 then
          check_signals(job.uuid)
        end
        local count, size
        count, size, has_more = check_some_steps(job, first)
        bytes, first = bytes + size, first + count
      end
      if not has_more then
        rank, first = rank + 1, 0
      end
      if bytes >= MAX_STEP_BYTES then
        break
      end
    end
    return decimal(rank) .. ' ' .. decimal(first)
  end

  return check_steps
end)()
