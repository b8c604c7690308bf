#!lua flags=allow-oom
-- Work off a part of the marks of these parents that are due.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [parent, ...]; a graph is "graph:" and its uuid
-- Returns: OK, and those of whose mark a part is left
-- A repeat finds less to do, or nothing.
--
-- include: expire_and_promote

expire_and_promote('50')

local parents, left = cmsgpack.unpack(ARGV[1]), {}
relatives.due, relatives.is_awaited = parents, true
write_back()
for number, value in ipairs(redis.call('HMGET', key('marks'), unpack(parents))) do
  local mark = decode_mark(value)
  if mark and mark[6] <= now then
    left[#left + 1] = parents[number]
  end
end
return {'OK', left}
