-- Read for which graphs jobs wait.
--
-- KEYS: 1 the board
-- ARGV: 1 msgpack [child, ...]
-- Returns: OK, and for each its graph, or an empty string
-- Changes nothing but what time has changed.
--
-- include: expire_and_promote

expire_and_promote('50')

local children, graphs = cmsgpack.unpack(ARGV[1]), {}
fetch(children)
for number, child in ipairs(children) do
  graphs[number] = jobs[child] and jobs[child].graph or ''
end
return {'OK', graphs}
