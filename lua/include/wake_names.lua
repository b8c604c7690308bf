-- include: board
-- include: waiters

-- Wake waiters for jobs of names of which more can be claimed from now on.
local function wake_names(names)
  local ready, timed = {}, {}
  for _, name in ipairs(names) do
    local count = redis.call('ZCARD', state_index('UNCLAIMED', name))
    if count > 0 then
      ready[name] = math.min(count, 1000)
    else
      -- Waiters that were armed meanwhile don't know what is due next.
      timed[name] = true
    end
  end
  wake_waiters(ready, timed, {}, {})
end
