-- include: board
-- include: rank_after
-- The lowest members of several sorted sets: a heap of streams that read ahead in steps. The functions are made when it
-- is called, because most claims are of one name and don't need it.

-- Returns up to `most` members after a place ("score member", or nil for all), lowest first, and the last one's place.
-- With `most_of_each`, no more of each key than that says.
local function merge_indexes(keys, after, most, most_of_each)
  local function refill(stream)
    if stream.rank >= stream.final then
      return false
    end
    stream.buffer = redis.call(
      'ZRANGE', stream.key, stream.rank, math.min(stream.rank + stream.step, stream.final) - 1, 'WITHSCORES')
    stream.rank, stream.at = stream.rank + stream.step, 1
    stream.member, stream.score = stream.buffer[1], tonumber(stream.buffer[2])
    return stream.score ~= nil
  end

  -- Move to the next member; false at the end.
  local function advance(stream)
    stream.at = stream.at + 2
    if stream.at > #stream.buffer then
      return #stream.buffer == 2 * stream.step and refill(stream)
    end
    stream.member, stream.score = stream.buffer[stream.at], tonumber(stream.buffer[stream.at + 1])
    return true
  end

  local function precedes(one, other)
    return one.score < other.score or one.score == other.score and one.member < other.member
  end

  local function sink(heap, at)
    local stream, count = heap[at], #heap
    for _ = 1, count do
      local child = at * 2
      if child < count and precedes(heap[child + 1], heap[child]) then
        child = child + 1
      end
      if child > count or not precedes(heap[child], stream) then
        break
      end
      heap[at] = heap[child]
      at = child
    end
    heap[at] = stream
  end

  local heap, members, last = {}, {}, nil
  local score, member = string.match(after or '', '^(%S+) (.*)$')
  local step = math.max(1, math.min(most, math.ceil(2 * most / #keys)))
  for number, name in ipairs(keys) do
    local rank = score and rank_after(name, score, member) or 0
    local final = most_of_each and rank + most_of_each[number] or math.huge
    local stream = {key = name, rank = rank, step = step, final = final}
    if refill(stream) then
      heap[#heap + 1] = stream
    end
  end
  for at = math.floor(#heap / 2), 1, -1 do
    sink(heap, at)
  end
  for _ = 1, most do
    local stream = heap[1]
    if not stream then
      break
    end
    members[#members + 1] = stream.member
    last = stream.buffer[stream.at + 1] .. ' ' .. stream.member
    if not advance(stream) then
      heap[1] = heap[#heap]
      heap[#heap] = nil
    end
    if #heap > 0 then
      sink(heap, 1)
    end
  end
  return members, last
end
