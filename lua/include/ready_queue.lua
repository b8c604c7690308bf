-- include: merge_indexes
-- include: paused
-- The names with claimable jobs, by `heads`, which has the place of each name's best job; and the best of these jobs.

-- Up to `most` of these names (nil: of all names) that have claimable jobs and are not paused, best head first. That
-- many claims never need more names.
local function ready_names(names, most)
  local paused, count = paused_names()
  local found = {}
  if paused[''] then
    return found
  end
  if not names then
    for _, name in ipairs(redis.call('ZRANGE', key('heads'), '0', most + count - 1)) do
      if not paused[name] and #found < most then
        found[#found + 1] = name
      end
    end
    return found
  end
  local heads = {}
  for _, name in ipairs(names) do
    local head = not paused[name] and redis.call('ZSCORE', key('heads'), name)
    if head then
      heads[name] = tonumber(head)
      found[#found + 1] = name
    end
  end
  table.sort(found, function(one, other) return heads[one] < heads[other] end)
  for index = #found, most + 1, -1 do
    found[index] = nil
  end
  return found
end

-- The uuids of the best jobs of these names (nil: of all), and their indexes.
local function best_jobs(names, count)
  local indexes, uuids = {}, {}
  for index, name in ipairs(ready_names(names, count)) do
    indexes[index] = state_index('UNCLAIMED', name)
  end
  if #indexes == 1 or #indexes > 0 and count == 1 then
    uuids = redis.call('ZRANGE', indexes[1], 0, count - 1)
  elseif #indexes > 0 then
    uuids = merge_indexes(indexes, nil, count)
  end
  return uuids, indexes
end
