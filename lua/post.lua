#!lua
-- Put a batch on the board, or nothing of it.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [[uuid, name, priority, key or nil, if_exists, run_at or nil, delay or nil, max_attempts or nil],
--       ...]
--       2.. the postings, one for each
-- Returns: OK or TAKEN; now; for each either its sequence (newly posted, just as sent) or its outcome; then the jobs
--       of those with an outcome, in order.
-- A repeat finds the uuids, also those of jobs that ended (`done:<uuid>`) and of replacements (`alias:<uuid>`), and
-- changes nothing.
--
-- include: post

settle('50')

local items = cmsgpack.unpack(ARGV[1])
local outcomes, found, taken = post(items, {unpack(ARGV, 2)})
flush()

local codes, others, seen = {}, {}, {}
for index = #items, 1, -1 do
  -- What was posted and met again later in the same batch is shown as it is in the end.
  local uuid = found[index].uuid
  if outcomes[index] == 'POSTED' and not seen[uuid] and not taken then
    codes[index] = found[index].sequence
  else
    codes[index] = outcomes[index]
    table.insert(others, 1, found[index])
  end
  seen[uuid] = true
end
return {taken and 'TAKEN' or 'OK', now, codes, show(others)}
