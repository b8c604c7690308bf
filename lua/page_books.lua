-- Read the next books, without their entries.
--
-- KEYS: 1 the board
-- ARGV: 1 the cursor that the last call returned (0 at first); 2 about how many
-- Returns: OK, the cursor (0 at the end), and uuid, version and body of each
-- Changes nothing. What stays throughout an iteration may be seen twice.
--
-- include: board

local found = redis.call('HSCAN', key('versions'), ARGV[1], 'COUNT', ARGV[2])
local answer = {'OK', found[1]}
for index = 1, #found[2], 2 do
  answer[#answer + 1] = found[2][index]
  answer[#answer + 1] = found[2][index + 1]
  answer[#answer + 1] = redis.call('HGET', key('books'), found[2][index]) or ''
end
return answer
