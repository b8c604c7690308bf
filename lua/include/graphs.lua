-- include: edges

-- Let the jobs of a graph wait for it no longer, unless it was given up.
local function seal(graph)
  local mark = mark_of('graph:' .. graph)
  if mark and mark[1] == 'GONE' and mark[6] > now then
    end_graph(graph, 'DONE')
    return 'DONE'
  end
  local ended = mark and mark[1] or redis.call('MGET', key('graph', graph))[1]
  return ended == 'DONE' and 'REPEATED' or 'LOST'
end
