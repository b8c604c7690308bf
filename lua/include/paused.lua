-- include: keys
-- The set `paused` has the names that are paused, '' for the whole board; and of each name with a limit one member that
-- is the name, a line break and the limit.

-- The names of which nothing may be claimed now: those that are paused, '' for the whole board, and those that have as
-- many claimed jobs as their limits allow; how many they and the limited ones are; and of each limited name how many
-- more jobs may be claimed.
local function paused_names()
  local paused, rooms = {}, {}
  local members = redis.call('SMEMBERS', key('paused'))
  for _, member in ipairs(members) do
    local name, most = string.match(member, '^(.*)\n(%d+)$')
    if name then
      rooms[name] = math.max(0, most - redis.call('ZCARD', key('claimed', name)))
      paused[name] = paused[name] or rooms[name] == 0
    else
      paused[member] = true
    end
  end
  return paused, #members, rooms
end

-- The names that somebody has paused, '' for the whole board.
local function paused_members()
  local names = {}
  for _, member in ipairs(redis.call('SMEMBERS', key('paused'))) do
    if not string.find(member, '\n', 1, true) then
      names[#names + 1] = member
    end
  end
  return names
end
