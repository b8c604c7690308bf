#!lua
-- Post a batch, or nothing of it.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack, of each its uuid, name, priority, key or nil, if_exists, run_at or nil, delay or nil, and the
--       posted fields of record.lua or nil, all one after the other; one with ties has for the delay the msgpack of
--       [delay or false, lane or false, and if there are others, a map of them: those of record.lua, and max_delay,
--       key_for, parents, graph]
--       2.. the payloads, one for each
-- Returns: now and the last sequence, if all were posted just as sent, and their sequences follow each other; otherwise
--       OK or REFUSED; now; for each its sequence (posted just as sent; negative if it is BLOCKED) or its outcome, as
--       [NO_PARENT, the parent] if that is missing; then the jobs of those with an outcome, in order
-- A repeat finds the uuids, also those of jobs that ended (`done:<uuid>`) and of replacements (`alias:<uuid>`), and
-- changes nothing.
--
-- include: post_plainly

local sent = {cmsgpack.unpack(ARGV[1])}
local plain, is_awaited, may_be_paused = plain_uuids(sent)
if plain and not is_awaited then
  local answer = not is_heard('POSTED') and post_plainly(sent, plain)
  if answer then
    return answer
  end
end

-- include: paused
-- include: waiter

-- Post a single job for the waiter that it wakes, if there is one, and claim it at once if that waiter wants this.
local function post_to_waiter(name)
  local paused = may_be_paused and paused_names() or {}
  local waiter = not paused[''] and not paused[name] and first_waiter(name)
  if not waiter then
    return not is_heard('POSTED') and post_plainly(sent, plain)
  end
  local heard = redis.call(
    'PUBSUB', 'SHARDNUMSUB', waiter.channel, key('events', 'POSTED'), key('events', 'CLAIMED'))
  if heard[2] == 0 or heard[4] + heard[6] > 0 then
    return
  end
  local answer, row = post_plainly(sent, plain, claim_ahead_for(waiter, paused))
  if answer then
    wake(waiter, row)
  end
  return answer
end

if plain and is_awaited and #plain == 1 then
  local answer = post_to_waiter(sent[2])
  if answer then
    return answer
  end
end

-- include: post_staged

if not plain then
  local answer = post_staged(sent)
  if answer then
    return answer
  end
end

-- include: waiters

if plain and is_awaited and #plain > 1 and not is_heard('POSTED') then
  local answer = post_plainly(sent, plain)
  if answer then
    -- Each waiter claims of a batch as much as it has room for.
    wake_waiters({[sent[2]] = #plain}, {}, {}, {})
    return answer
  end
end

-- include: post_jobs

expire_and_promote('50')

local items = {}
for index = 1, #ARGV - 1 do
  items[index] = {unpack(sent, POSTING_PARTS * (index - 1) + 1, POSTING_PARTS * index)}
end
local outcomes, found, is_refused, missing = post_jobs(items, {unpack(ARGV, 2)})
write_back()
return posted_answer(items, outcomes, found, is_refused, missing)
