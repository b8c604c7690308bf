-- include: transitions
-- Expires claims and promotes delayed jobs that are due, up to `most` of each, so that no script takes long.
-- Returns whether there may be more. A script about the whole board then answers MORE and is called again; a script
-- about certain jobs goes on, and calls `expire_or_promote` for each of them.

local function due_members(timer, from, most)
  local uuids = redis.call('ZRANGEBYSCORE', key(timer), '-inf', now_text, 'LIMIT', from, most)
  if #uuids > 0 then
    fetch(uuids)
  end
  return uuids
end

-- Jobs of a newer format are left in place, and skipped.
local function due_jobs(timer, most)
  local found, passed = {}, 0
  for _, from in ipairs({'0', most}) do
    for _, uuid in ipairs(due_members(timer, from, from == '0' and most or MAX_SKIPPED)) do
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

local function process_timer(timer, most)
  local uuids = due_jobs(timer, most)
  local orphans = {}
  for _, uuid in ipairs(uuids) do
    local job = jobs[uuid]
    if job and due_at(job) and due_at(job) <= now then
      expire_or_promote(job)
    elseif string.byte(uuid) == 9 then
      -- A tabulator begins the timer of a mark.
      table.insert(relatives.due, string.sub(uuid, 2))
      relatives.is_awaited = true
    elseif not is_changed[uuid] then
      -- A line break begins the timer of a lane, which the look at it sets anew if it has to.
      orphans[#orphans + 1] = uuid
      if string.byte(uuid) == 10 then
        has_lanes, asked_lanes[string.sub(uuid, 2)] = true, true
      end
    end
  end
  if #orphans > 0 then
    redis.call('ZREM', key(timer), unpack(orphans))
  end
  return #uuids
end

local function expire_and_promote(most)
  local count = math.max(process_timer('leases', most), process_timer('delayed', most))
  if count > 0 then
    -- A reading script has no flag `allow-oom`: while memory is full, its first write would be refused. A DEL never is,
    -- and a script that has written may go on.
    redis.call('DEL', key('settled'))
    write_back()
  end
  return count == tonumber(most)
end
