-- include: board
-- Removes completed jobs whose retention is over from the indexes; their records expire by their own TTL. Jobs that end
-- together are one member of `completed`: their name, a line break and their members of the index.

-- Remove the jobs of these members until `most` are removed; the last member may exceed it. Returns how many jobs and
-- members there were.
local function prune(members, most)
  local count, pruned, done = 0, {}, {}
  for number, member in ipairs(members) do
    if count >= most then
      break
    end
    local name, ended = string.match(member, '^([^\n]*)\n(.*)$')
    local list = pruned[name or ''] or {}
    pruned[name or ''], done[number] = list, member
    for at = 1, #(ended or ''), MEMBER_LENGTH do
      list[#list + 1], count = string.sub(ended, at, at + MEMBER_LENGTH - 1), count + 1
    end
  end
  for name, list in pairs(pruned) do
    for at = 1, #list, 1000 do
      redis.call('ZREM', state_index('COMPLETE', name), unpack(list, at, math.min(at + 999, #list)))
    end
  end
  if #done > 0 then
    redis.call('ZREM', key('completed'), unpack(done))
  end
  return count, #done
end

-- Some members at a time, because each may have many jobs: the jobs of a batch of 100.
local function prune_completed(most)
  local count = 0
  for _ = 1, most, 16 do
    local members = redis.call('ZRANGEBYSCORE', key('completed'), '-inf', now_text, 'LIMIT', '0', '16')
    local pruned, done = prune(members, most - count)
    count = count + pruned
    if done < 16 or count >= most then
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
