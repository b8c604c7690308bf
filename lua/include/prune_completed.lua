-- include: board
-- Removes completed jobs whose retention is over from the indexes; their records expire by their own TTL.

local function prune_completed(most)
  local members = redis.call('ZRANGEBYSCORE', key('retained'), '-inf', now_text, 'LIMIT', '0', most)
  for _, member in ipairs(members) do
    redis.call('ZREM', state_index('COMPLETE', string.sub(member, 37)), string.sub(member, 1, 36))
  end
  if #members > 0 then
    redis.call('ZREM', key('retained'), unpack(members))
  end
  return #members
end

-- At full speed more jobs are completed than `tidy` could remove. Of single calls, one in eight prunes for all.
local function prune_after(ended)
  if ended > 8 or now % 8 == 0 then
    prune_completed(16 * ended)
  end
end
