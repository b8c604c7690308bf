#!lua flags=allow-oom
-- Undo a pause, and wake who waits.
--
-- KEYS: 1 the board
-- ARGV: 1 the name, or an empty string for the whole board
-- Returns: OK
-- A repeat finds no pause, and tells nobody again.
--
-- include: settle
-- include: changes

settle('50')

if redis.call('SREM', key('paused'), ARGV[1]) == 1 then
  announce('RESUMED', false, ARGV[1] ~= '' and ARGV[1], line_of('RESUMED'))
  local ready, timed = {}, {}
  local names = ARGV[1] ~= '' and {ARGV[1]} or redis.call('ZRANGE', key('names'), 0, -1)
  for _, name in ipairs(names) do
    local count = redis.call('ZCARD', order('UNCLAIMED', name))
    if count > 0 then
      ready[name] = math.min(count, 1000)
    else
      -- Whoever slept through the pause does not know what is due next.
      timed[name] = true
    end
  end
  stir(ready, timed)
end
flush()
return {'OK'}
