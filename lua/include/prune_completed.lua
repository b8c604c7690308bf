-- include: board
-- Removes completed jobs whose retention is over from the indexes; their records expire by their own TTL. Jobs that end
-- together are one member of `retained`: their name, a line break and their uuids.

local function prune(member)
  local name, uuids = string.match(member, '^([^\n]*)\n(.*)$')
  local length = #(uuids or '')
  for at = 1, length, 36 do
    redis.call('ZREM', state_index('COMPLETE', name), string.sub(uuids, at, at + 35))
  end
  return length / 36
end

-- Some members at a time, because each may have many jobs.
local function prune_completed(most)
  local count = 0
  for _ = 1, most, 16 do
    local members = redis.call('ZRANGEBYSCORE', key('retained'), '-inf', now_text, 'LIMIT', '0', '16')
    for _, member in ipairs(members) do
      count = count + prune(member)
    end
    if #members > 0 then
      redis.call('ZREM', key('retained'), unpack(members))
    end
    if #members < 16 or count >= most then
      break
    end
  end
  return count
end

-- At full speed more jobs are completed than `tidy` could remove. Of single calls, one in eight prunes for all.
local function prune_after(ended)
  if ended > 8 or now % 8 == 0 then
    prune_completed(16 * ended)
  end
end
