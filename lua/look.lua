#!lua flags=allow-oom
-- Bring lanes to what their limits allow.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [lane, ...]
-- Returns: OK, and those that need another look now
-- A repeat finds less to do, or nothing.
--
-- include: expire_and_promote

expire_and_promote('50')

local lanes, unfinished = cmsgpack.unpack(ARGV[1]), {}
for _, lane in ipairs(lanes) do
  has_lanes, asked_lanes[lane] = true, true
end
write_back()
for _, lane in ipairs(lanes) do
  if unfinished_lanes[lane] then
    unfinished[#unfinished + 1] = lane
  end
end
return {'OK', unfinished}
