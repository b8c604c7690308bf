local function write_all(command, lists)
  for name, list in pairs(lists) do
    if #list > 0 then
      redis.call(command, name, unpack(list))
    end
  end
end

-- The list of a Redis key; a new one the first time.
local function list_in(lists, name)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
  end
  return list
end
