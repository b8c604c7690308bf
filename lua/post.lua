#!lua
-- Post a batch, or nothing of it.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack, of each its uuid, name, priority, key or nil, if_exists, run_at or nil, delay or nil, and the
--       posted fields of record.lua or nil, all one after the other; one with a lane has [delay or false, the lane] for
--       the delay
--       2.. the payloads, one for each
-- Returns: now and the last sequence, if all were posted just as sent, and their sequences follow each other; otherwise
--       OK or REFUSED; now; for each its sequence (posted just as sent; negative if it is BLOCKED) or its outcome; then
--       the jobs of those with an outcome, in order
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

-- include: waiters

if plain and is_awaited and #plain > 1 and not is_heard('POSTED') then
  local answer = post_plainly(sent, plain)
  if answer then
    -- Each waiter claims of a batch as much as it has room for.
    wake_waiters({[sent[2]] = #plain}, {}, {})
    return answer
  end
end

-- include: post_jobs

expire_and_promote('50')

local items = {}
for index = 1, #ARGV - 1 do
  items[index] = {unpack(sent, POSTING_PARTS * (index - 1) + 1, POSTING_PARTS * index)}
end
local outcomes, found, is_refused = post_jobs(items, {unpack(ARGV, 2)})
write_back()

local codes, others, seen = {}, {}, {}
for index = #items, 1, -1 do
  -- A job that a later item of the same batch changed is returned as it is in the end.
  local uuid = found[index].uuid
  if outcomes[index] == 'POSTED' and not (seen[uuid] or is_refused) then
    codes[index] = found[index].state == 'BLOCKED' and -found[index].sequence or found[index].sequence
  else
    codes[index] = outcomes[index]
    table.insert(others, 1, found[index])
  end
  seen[uuid] = true
end
return {is_refused and 'REFUSED' or 'OK', now, codes, job_rows(others)}
