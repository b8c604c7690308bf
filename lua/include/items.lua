-- include: expire_and_promote
-- What operators ask about several jobs at once.

-- Answer a request of items ({uuid, ...} each): NEWER and the uuid, if a job is of a newer format and so must not be
-- changed, or OK, and for each item what `answer` returns.
local function answer_each(request, answer)
  expire_and_promote('50')
  local items, uuids, answers = cmsgpack.unpack(request), {}, {}
  for index, item in ipairs(items) do
    uuids[index] = item[1]
  end
  fetch(uuids)
  for _, uuid in ipairs(uuids) do
    if newer[uuid] then
      return {'NEWER', uuid}
    end
  end
  for index, item in ipairs(items) do
    answers[index] = answer(item)
  end
  write_back()
  return {'OK', answers}
end
