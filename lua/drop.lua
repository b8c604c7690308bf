#!lua flags=allow-oom
-- Give up a graph that is not complete.
--
-- KEYS: 1 the board
-- ARGV: 1 the graph
-- Returns: OK
-- A repeat finds no mark, or less to do.
--
-- include: expire_and_promote

expire_and_promote('50')

local mark = mark_of('graph:' .. ARGV[1])
if mark and mark[1] == 'GONE' and mark[6] > now then
  end_graph(ARGV[1], 'GONE')
end
write_back()
return {'OK'}
