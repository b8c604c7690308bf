-- Read the next lanes of a pattern.
--
-- KEYS: 1 the board
-- ARGV: 1 the pattern; 2 the lane after which to begin, or an empty string; 3 how many
-- Returns: OK, the lane after which to go on (an empty string at the end), and the lanes (maybe fewer than asked for)
-- Changes nothing.
--
-- include: limits

local pattern, after, size = ARGV[1], ARGV[2], tonumber(ARGV[3])
local prefix = string.match(pattern, '^(.*):%*$')
if not prefix then
  return {'OK', '', redis.call('ZSCORE', key('lanes'), pattern) and {pattern} or {}}
end
local lanes = redis.call(
  'ZRANGEBYLEX', key('lanes'), '(' .. (after ~= '' and after or prefix .. ':'), '(' .. prefix .. ';', 'LIMIT', 0, size)
local found = {}
for _, lane in ipairs(lanes) do
  if prefix_of(lane) == pattern then
    found[#found + 1] = lane
  end
end
return {'OK', #lanes == size and lanes[size] or '', found}
