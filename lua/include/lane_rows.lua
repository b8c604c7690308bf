-- include: board
-- include: lane_scores

-- A lane, and how many jobs of it are claimed, claimable, retrying and BLOCKED; and when the first of these joined it.
local function lane_row(lane)
  local held, blocked = key('held', lane), key('lane', lane)
  local first = redis.call('ZRANGE', blocked, 0, 0, 'WITHSCORES')[2]
  local oldest = first and string.format('%.0f', first % PLACES_OF_PRIORITY + FIRST_MOMENT) or false
  return {
    lane, redis.call('ZCOUNT', held, CLAIMED_SCORE, CLAIMED_SCORE),
    redis.call('ZCOUNT', held, '(' .. CLAIMED_SCORE, '+inf'), redis.call('ZCARD', key('retrying', lane)),
    redis.call('ZCARD', blocked), oldest,
  }
end
