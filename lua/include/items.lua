-- include: records
-- What operators ask about several jobs at once.

-- The first of these loaded jobs that has a newer format, and so must not be changed.
local function first_newer(uuids)
  for _, uuid in ipairs(uuids) do
    if newer[uuid] then
      return uuid
    end
  end
end

-- The items of a request ({uuid, ...} each), with their jobs loaded, and the first uuid of a newer format.
local function load_items(request)
  local items, uuids = cmsgpack.unpack(request), {}
  for index, item in ipairs(items) do
    uuids[index] = item[1]
  end
  fetch(uuids)
  return items, first_newer(uuids)
end
