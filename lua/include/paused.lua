-- include: keys

-- The names that are paused, '' for the whole board, and their number.
local function paused_names()
  local paused = {}
  local members = redis.call('SMEMBERS', key('paused'))
  for _, name in ipairs(members) do
    paused[name] = true
  end
  return paused, #members
end
