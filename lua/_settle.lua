-- include: steps
-- Take back what expired and promote what is due, up to `most` of each, so that no script takes long.
-- Returns whether there may be more; whoever looks at the whole board answers MORE then and is called again, while a
-- script that is about certain jobs settles those by itself and goes on.

local function due_in(timer, from, most)
  local uuids = redis.call('ZRANGEBYSCORE', key(timer), '-inf', now_text, 'LIMIT', from, most)
  if #uuids > 0 then
    fetch(uuids)
  end
  return uuids
end

-- What is of a newer format stays where it is; there is a look past it.
local function due_here(timer, most)
  local found, passed = {}, 0
  for _, from in ipairs({'0', most}) do
    for _, uuid in ipairs(due_in(timer, from, from == '0' and most or LOOK_PAST)) do
      if newer[uuid] then
        passed = passed + 1
      elseif #found < tonumber(most) then
        found[#found + 1] = uuid
      end
    end
    if passed == 0 then
      break
    end
  end
  return found
end

local function settle_timer(timer, most)
  local uuids = due_here(timer, most)
  local strays = {}
  for _, uuid in ipairs(uuids) do
    local job = jobs[uuid]
    if job and due(job) and due(job) <= now then
      settle_job(job)
    elseif not is_changed[uuid] then
      strays[#strays + 1] = uuid
    end
  end
  if #strays > 0 then
    redis.call('ZREM', key(timer), unpack(strays))
  end
  return #uuids
end

local function settle(most)
  local count = math.max(settle_timer('leases', most), settle_timer('delayed', most))
  if count > 0 then
    -- Whoever only looks has no flag to write while memory is full. To delete is never refused for that, and a script
    -- that has written goes on.
    redis.call('DEL', key('settled'))
    flush()
  end
  return count == tonumber(most)
end
