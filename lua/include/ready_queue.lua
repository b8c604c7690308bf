-- include: merge_indexes
-- include: paused
-- The names with claimable jobs, by `heads`, which has the place of each name's best job; and the best of these jobs.

-- The first `count` names and their heads, and those of the same head as the last of them.
local function first_heads(count)
  local found = redis.call('ZRANGE', key('heads'), '0', count, 'WITHSCORES')
  local last = found[2 * count]
  if last and found[2 * count + 2] == last then
    return redis.call('ZRANGE', key('heads'), '0', count + MAX_SKIPPED, 'WITHSCORES')
  end
  return found
end

-- Up to `most` of these names (nil: of all names) that have claimable jobs and are not paused, best head first; that
-- many claims never need more names. And how many more jobs of each limited name may be claimed.
local function ready_names(names, most)
  local paused, count, rooms = paused_names()
  local found, heads, members = {}, {}, {}
  if paused[''] then
    return found, rooms
  end
  local function add(name, head)
    if head and not paused[name] then
      found[#found + 1], heads[name] = name, tonumber(head)
    end
  end
  local function member_at_head(name)
    members[name] = members[name] or redis.call('ZRANGE', state_index('UNCLAIMED', name), 0, 0)[1] or ''
    return members[name]
  end
  if names then
    for _, name in ipairs(names) do
      add(name, redis.call('ZSCORE', key('heads'), name))
    end
  else
    local first = first_heads(most + count)
    for at = 1, #first, 2 do
      add(first[at], first[at + 1])
    end
  end
  table.sort(found, function(one, other)
    if heads[one] ~= heads[other] then
      return heads[one] < heads[other]
    end
    return member_at_head(one) < member_at_head(other)
  end)
  for index = #found, most + 1, -1 do
    found[index] = nil
  end
  return found, rooms
end

-- The members of the best jobs of these names (nil: of all), and `further` more, since some may be no jobs that can be
-- claimed; their indexes; and how many jobs of each limited name may be claimed.
local function best_jobs(names, count, further)
  local indexes, members, most, sum = {}, {}, {}, 0
  local wanted, rooms = ready_names(names, count + further)
  for number, name in ipairs(wanted) do
    indexes[number] = state_index('UNCLAIMED', name)
    most[number] = math.min(count, rooms[name] or count) + further
    sum = sum + most[number]
  end
  if #indexes == 1 or #indexes > 0 and count + further == 1 then
    members = redis.call('ZRANGE', indexes[1], 0, most[1] - 1)
  elseif #indexes > 0 then
    members = merge_indexes(indexes, nil, math.min(count + further, sum), most)
  end
  return members, indexes, rooms
end
