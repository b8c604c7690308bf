-- include: keys
-- include: text

-- The rank in an index of the first member after a place, which is a score and a member; many can have the same score,
-- so it bisects.
local function rank_after(index, score, member)
  local low = redis.call('ZCOUNT', index, '-inf', '(' .. score)
  local high = low + redis.call('ZCOUNT', index, score, score)
  for _ = 1, high - low do
    if low >= high then
      break
    end
    local middle = math.floor((low + high) / 2)
    if not comes_after(redis.call('ZRANGE', index, middle, middle)[1], member) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end
