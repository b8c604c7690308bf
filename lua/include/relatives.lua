-- include: edges
-- include: posting
-- include: settle_plainly
-- What follows for other jobs from what has happened to some in this script: their children learn of their ends, and
-- become what jobboard/backends/edges.py says; and what their postings want is posted. A part of the children at
-- once: a mark has what is left.

-- How many children a script settles because of ends, and how many edges and bytes of results it writes, at most.
local MAX_RESOLVED, MAX_EDGES, MAX_RESOLVED_BYTES = 50, 200, 524288
-- How many generations of children a script goes down at most.
local MAX_GENERATIONS = 60
-- For how many seconds it is known what became of a graph.
local GRAPH_MEMORY = '600'

carry_out = function(soon)
  local edges_left, children_left, bytes_left = MAX_EDGES, MAX_RESOLVED, MAX_RESOLVED_BYTES
  local is_unsettled, is_dropped = {}, {}

  -- Post what a job's posting wants to follow its end, as jobboard/backends/follow_ups.py packs it; what can't be read
  -- harms nobody.
  local function post_following(job, data)
    local is_readable, parts = pcall(cmsgpack.unpack, data)
    if not is_readable or type(parts) ~= 'table' then
      return
    end
    local name, priority, its_key, delay, attempts, lane, body = unpack(parts, 1, 7)
    if not (is_text(name) and is_number(priority) and is_text(its_key or '') and is_number(delay or 0)
      and is_number(attempts or 0) and is_text(lane or '') and is_text(body)) then
      return
    end
    local hex = redis.sha1hex(job.uuid .. ' ' .. decimal(job.token) .. ' ' .. name)
    local uuid = table.concat({
      string.sub(hex, 1, 8), string.sub(hex, 9, 12), string.sub(hex, 13, 16), string.sub(hex, 17, 20),
      string.sub(hex, 21, 32),
    }, '-')
    post_jobs({{uuid, name, priority, its_key or nil, 'keep', nil, {delay, lane}, attempts or nil}}, {body})
  end

  -- Whether a job that a failed parent let go waits for that parent once it is back: nobody has ever claimed it.
  local function can_wait_again(job)
    return job.if_failed == 'run' and not job.has_parents and job.token == 0 and not newer[job.uuid]
      and job.state ~= 'COMPLETE'
  end

  -- Whether a parent that is open holds a job back.
  local function may_wait(job)
    return job.has_parents or can_wait_again(job)
  end

  local function wait_again(job)
    job.has_parents = true
    if job.state == 'BLOCKED' or job.state == 'UNCLAIMED' then
      join(job, job.place)
    end
    record_event(job, 'BLOCKED', nil, nil, 'a parent of it was restored')
  end

  local function unsettle(job)
    if may_wait(job) and not is_unsettled[job.uuid] and not newer[job.uuid] then
      is_unsettled[job.uuid], children_left = true, children_left - 1
      table.insert(relatives.unsettled, job)
    end
  end

  -- Let a child have never waited for a parent.
  local function delete_edge(child, parent)
    write_end(child, parent, {'OPEN'})
    redis.call('ZREM', key('parents', child), parent)
    redis.call('ZREM', key('children', parent), child)
  end

  -- Let one child know how a parent, or its graph, stands; one that is forgotten has no edges.
  local function tell_child(child, parent, ending)
    local job = jobs[child]
    if not job or ending[1] == 'OPEN' and not may_wait(job) then
      return
    end
    if ending[1] == 'NEVER' then
      delete_edge(child, parent)
    elseif string.sub(parent, 1, 6) ~= 'graph:' then
      write_end(child, parent, ending)
    elseif ending[1] == 'GONE' then
      is_dropped[child] = true
    elseif job.graph and not newer[child] then
      job.graph = nil
      keep(job)
    end
    unsettle(job)
  end

  local function forget_mark(parent, outcome)
    if redis.call('HDEL', key('marks'), parent) == 1 then
      redis.call('ZREM', key('delayed'), mark_timer(parent))
    end
    if string.sub(parent, 1, 6) == 'graph:' then
      redis.call('DEL', key('children', parent))
      redis.call('SET', board .. ':' .. parent, outcome, 'EX', GRAPH_MEMORY)
    end
  end

  -- Bring a part of the edges of a parent up to date, and keep a mark of what is left.
  local function resolve(parent, ending, cursor)
    local size = #(ending[3] or '')
    local most = math.max(0, math.min(MAX_RESOLVED, edges_left, children_left))
    if size > 0 then
      most = math.min(most, bytes_left < MAX_RESOLVED_BYTES and math.floor(math.max(0, bytes_left) / size)
        or math.max(1, math.floor(bytes_left / size)))
    end
    local from = cursor == '' and '-' or '(' .. cursor
    local children = redis.call('ZRANGEBYLEX', key('children', parent), from, '+', 'LIMIT', 0, most + 1)
    local following = children[most + 1]
    children[most + 1] = nil
    cursor = children[#children] or cursor
    if settle_plainly(children, parent, ending) then
      children_left = children_left - #children
    else
      fetch(children)
      fetch_finished(children)
      for _, child in ipairs(children) do
        tell_child(child, parent, ending)
      end
    end
    edges_left, bytes_left = edges_left - #children, bytes_left - #children * size
    if not following then
      forget_mark(parent, ending[1])
      return
    end
    write_mark(parent, {ending[1], ending[2], ending[3], ending[4], cursor, now})
    relatives.is_unfinished = true
    local is_readable, _, name = pcall(read_head, following, redis.call('HMGET', key('jobs'), following)[1])
    if is_readable and name then
      -- Who waits for it goes on.
      soon[name] = true
    end
  end

  -- Let a job that waits for parents become what follows from how they stand.
  local function settle(job)
    local uuid, live = job.uuid, is_live(job)
    is_unsettled[uuid] = nil
    if can_wait_again(job) and redis.call('ZCARD', key('parents', uuid)) > redis.call('HLEN', key('ends', uuid)) then
      wait_again(job)
      return
    end
    if not job.has_parents or job.state == 'COMPLETE' then
      return
    end
    if is_dropped[uuid] then
      set_reason(job, 'its graph was given up before it was complete')
      cancel(job, nil, nil, job.reason)
      if job.has_children then
        -- The client that let a job on the board wait for this one was refused, or died, before it was posted.
        relatives.steps[#relatives.steps][2] = 'NEVER'
      end
      return
    end
    if job.graph then
      -- It may be given up yet: then no parent has decided anything.
      return
    end
    local failed, gone
    -- Of a graph, many have no parents.
    local count = redis.call('ZCARD', key('parents', uuid))
    if count > 0 and redis.call('EXISTS', key('failed', uuid), key('gone', uuid)) > 0 then
      failed = redis.call('SRANDMEMBER', key('failed', uuid))
      gone = redis.call('SRANDMEMBER', key('gone', uuid))
    end
    local wish = job.if_failed or 'wait'
    local lost = gone or wish == 'cancel' and live and failed
    local is_claimed = job.state == 'CLAIMED'
    if lost and wish ~= 'run' and is_claimed and count > redis.call('HLEN', key('ends', uuid)) then
      -- Nothing ends a claim from outside: it runs again after the others.
      job.if_failed = 'run'
      record_event(job, 'BLOCKED', nil, nil, 'its parent ' .. lost .. ' failed')
    elseif lost and wish == 'cancel' and live and not is_claimed then
      cancel(job, nil, nil, 'its parent ' .. lost .. ' failed')
    elseif lost and wish == 'wait' and live and not is_claimed then
      job.has_parents = nil
      set_reason(job, 'its parent ' .. lost .. ' was cancelled or purged', nil, true)
      trash(job, nil, nil, job.reason)
    elseif lost and wish ~= 'run' or not (failed and wish ~= 'run')
      and (count == 0 or count <= redis.call('HLEN', key('ends', uuid))) then
      job.has_parents = nil
      if job.state == 'BLOCKED' then
        join(job, place_of(now, job.priority))
        moved[uuid] = true
      end
      record_event(job, 'RESOLVED')
    end
  end

  -- Go on with marks that are due.
  local function resolve_due(parents)
    local values = #parents > 0 and redis.call('HMGET', key('marks'), unpack(parents)) or {}
    for number, parent in ipairs(parents) do
      local mark = decode_mark(values[number])
      if not mark then
        redis.call('ZREM', key('delayed'), mark_timer(parent))
      elseif mark[6] <= now then
        resolve(parent, mark, mark[5])
      end
    end
  end

  relatives.is_awaited, relatives.is_unfinished = false, false
  for _ = 1, MAX_GENERATIONS do
    local posts, due, steps = relatives.posts, relatives.due, relatives.steps
    relatives.posts, relatives.due, relatives.steps = {}, {}, {}
    for _, post in ipairs(posts) do
      post_following(post[1], post[2])
    end
    write_all('ZADD', relatives.adds)
    relatives.adds = {}
    resolve_due(due)
    for _, step in ipairs(steps) do
      resolve(step[1], {unpack(step, 2, 5)}, '')
    end
    local unsettled = relatives.unsettled
    relatives.unsettled = {}
    for _, job in ipairs(unsettled) do
      settle(job)
    end
    if #relatives.steps + #relatives.posts == 0 then
      break
    end
  end
end
