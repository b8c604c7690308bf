-- The list of a Redis key; a new one the first time.
local function list_in(lists, name)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
  end
  return list
end
