-- include: expire_and_promote
-- What operators ask about several jobs at once.

-- Answer a request about jobs: NEWER and the uuid, if one is of a newer format and so must not be changed, or OK, and
-- what `answer` returns for each uuid.
local function answer_each(request, answer)
  expire_and_promote('50')
  local uuids, answers = cmsgpack.unpack(request), {}
  fetch(uuids)
  for _, uuid in ipairs(uuids) do
    if newer[uuid] then
      return {'NEWER', uuid}
    end
  end
  for index, uuid in ipairs(uuids) do
    answers[index] = answer(uuid)
  end
  write_back()
  return {'OK', answers}
end
