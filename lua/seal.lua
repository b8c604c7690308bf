#!lua flags=allow-oom
-- Say that a graph is complete.
--
-- KEYS: 1 the board
-- ARGV: 1 the graph
-- Returns: OK, and DONE, REPEATED or LOST
-- A repeat finds the mark, or what became of the graph.
--
-- include: expire_and_promote
-- include: graphs

expire_and_promote('50')

local verdict = seal(ARGV[1])
write_back()
return {'OK', verdict}
