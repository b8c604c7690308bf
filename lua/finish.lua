#!lua
-- End claims, and post in the same step.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[uuid, who, token or nil for an operator, how many postings, their parts as post.lua has them, one
--       after the other, retention or nil for the trash, result or false, the graph that is complete with it or nil,
--       reason or nil, error or nil], ...]
--       2.. the payloads of all postings
-- Returns: NEWER and the uuid, if an operator's job is of a newer format, or OK, now, and for each DONE, REPEATED, LOST
--       or what is lost (see fence.lua), or what post.lua returns if that is refused
-- A repeat finds the end as consume.lua and trash.lua find it, and posts nothing.
--
-- include: expire_and_promote
-- include: fence
-- include: post_jobs
-- include: graphs
-- include: posting_parts
-- include: prune_completed

expire_and_promote('50')

local ends, reached = cmsgpack.unpack(ARGV[1]), 1

-- Post what is to be posted with an end; the answer if that is refused.
local function post_with(uuid, count, parts, graph)
  local items, payloads = {}, {unpack(ARGV, reached + 1, reached + count)}
  for number = 1, count do
    items[number] = {unpack(parts, POSTING_PARTS * (number - 1) + 1, POSTING_PARTS * number)}
  end
  fetch_all(items)
  local outcomes, found, is_refused, missing, placed = plan(items, payloads, uuid)
  if is_refused then
    local answer = posted_answer(items, outcomes, found, true, missing)
    drop_plan(items, outcomes)
    return answer
  end
  if graph and seal(graph) == 'LOST' then
    drop_plan(items, outcomes)
    return {'REFUSED', now, {}, {}}
  end
  return nil, function() apply_plan(items, payloads, outcomes, found, placed) end
end

local function end_of(item)
  local uuid, who, token, count, parts, retention, result, graph, reason, fault = unpack(item, 1, 10)
  local job = jobs[uuid]
  if token and not fenced_job(item) or not token and not (job and is_live(job)) then
    job = load_any(uuid)
    if retention then
      local is_mine = job and job.state == 'COMPLETE' and job.owner == who and job.token == token
      return is_mine and 'REPEATED' or lost(job)
    elseif token then
      return repeated_or_lost(item, {TRASHED = true})
    end
    return job and job.state == 'TRASHED' and 'REPEATED' or lost(job)
  end
  local refusal, post = post_with(uuid, count, parts, graph)
  if refusal then
    return refusal
  end
  if retention then
    consume(job, result, retention)
  else
    set_reason(job, reason, fault, true)
    trash(job, who, token or job.state == 'CLAIMED' and job.token, reason)
  end
  post()
  write_back()
  return 'DONE'
end

check_fences(ends)
local answers = {}
for index, item in ipairs(ends) do
  if not item[3] and newer[item[1]] then
    return {'NEWER', item[1]}
  end
  answers[index] = end_of(item)
  reached = reached + item[4]
end
write_back()
prune_after(#ends)
return {'OK', now, answers}
