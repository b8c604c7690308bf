-- include: keys

-- Whether the keys of a job on the board are those of an earlier one of its uuid, which is forgotten.
local function are_remains(uuid)
  local score = redis.call('ZSCORE', key('own_keys'), uuid)
  return score and score ~= 'inf' and redis.call('HEXISTS', key('jobs'), uuid) == 1
end
