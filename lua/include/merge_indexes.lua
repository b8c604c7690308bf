-- include: board
-- The lowest members of several sorted sets: a heap of streams that read ahead in steps. The functions are made when it
-- is called, because most claims are of one name and don't need it.

-- Returns up to `most` members above `after` (text, or nil for all), lowest first, and the score of the last as text.
local function merge_indexes(keys, after, most)
  local function refill(stream)
    local low = stream.last and '(' .. stream.last or '-inf'
    stream.buffer = redis.call('ZRANGEBYSCORE', stream.key, low, '+inf', 'WITHSCORES', 'LIMIT', 0, stream.step)
    stream.at = 1
    stream.last = stream.buffer[#stream.buffer]
    stream.score = tonumber(stream.buffer[2])
    return stream.score ~= nil
  end

  -- Move to the next member; false at the end.
  local function advance(stream)
    stream.at = stream.at + 2
    if stream.at > #stream.buffer then
      return #stream.buffer == 2 * stream.step and refill(stream)
    end
    stream.score = tonumber(stream.buffer[stream.at + 1])
    return true
  end

  local function sink(heap, at)
    local stream, count = heap[at], #heap
    for _ = 1, count do
      local child = at * 2
      if child < count and heap[child + 1].score < heap[child].score then
        child = child + 1
      end
      if child > count or heap[child].score >= stream.score then
        break
      end
      heap[at] = heap[child]
      at = child
    end
    heap[at] = stream
  end

  local heap, members, last = {}, {}, nil
  local step = math.max(1, math.min(most, math.ceil(2 * most / #keys)))
  for _, name in ipairs(keys) do
    local stream = {key = name, last = after, step = step}
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
    members[#members + 1] = stream.buffer[stream.at]
    last = stream.buffer[stream.at + 1]
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
