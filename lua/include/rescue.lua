-- include: ownerless
-- include: rank_after
-- Expires claims whose owner key is gone. Keys and leases can vanish by eviction or by hand, so the search begins with
-- the claimed jobs: up to 500 of them at a time, at most once a second, from where the last search ended.

-- The claim id of a claimed job, as its record has it; nothing for any other job, or one of a newer format. Whether the
-- rest of the record can be read does not matter here; to check that takes most of the time of `read_record`.
local function claim_id_in(uuid, value)
  -- luacheck: ignore 211
  local readable, rest,
    -- each field, by ",": its_FIELD
    = pcall(cmsgpack.unpack_limit, value, FIELD_COUNT, #RECORD_HEAD)
  if readable and its_uuid == uuid and its_state == 'CLAIMED' and has_known_head(value) then
    return type(its_claim_id) == 'string' and its_claim_id or ''
  end
end

-- Most of these claims hold, and many have one claim id, so that is searched in the bytes of the next record first. A
-- claim id is random, and stands nowhere else.
local function rescue_ownerless(uuids)
  local values = #uuids > 0 and redis.call('HMGET', key('jobs'), unpack(uuids)) or {}
  local keys, claim_id = {}, nil
  for index, uuid in ipairs(uuids) do
    local value = values[index]
    if not (value and claim_id and string.find(value, claim_id, 1, true)) then
      claim_id = claim_id_in(uuid, value)
      keys[#keys + 1] = claim_id and key('owner', claim_id) or nil
    end
  end
  if #keys == 0 or redis.call('EXISTS', unpack(keys)) == #keys then
    return
  end
  fetch(uuids)
  local claimed = {}
  for _, uuid in ipairs(uuids) do
    local job = jobs[uuid]
    if job and job.state == 'CLAIMED' and not newer[uuid] then
      claimed[#claimed + 1] = job
    end
  end
  expire_ownerless(claimed)
end

local function rescue_claims()
  local last = redis.call('HMGET', key('swept'), 'at', 'name', 'place')
  if math.abs(now - (tonumber(last[1] or '') or 0)) < RESCUE_INTERVAL then
    return
  end
  local left, name = 500, last[2] or ''
  local score, member = string.match(last[3] or '', '^(%S+) (.*)$')
  local is_place = tonumber(score) and tonumber(score) == tonumber(score)
  local names = redis.call('ZRANGEBYLEX', key('names'), '[' .. name, '+', 'LIMIT', 0, 100)
  local reached, at = '', ''
  for _, other in ipairs(names) do
    local index = state_index('CLAIMED', other)
    local rank = other == name and is_place and rank_after(index, score, member) or 0
    local members = redis.call('ZRANGE', index, rank, rank + left - 1)
    left = left - #members
    if left <= 0 then
      reached, at = other, redis.call('ZSCORE', index, members[#members]) .. ' ' .. members[#members]
    end
    rescue_ownerless(uuids_of(members))
    if left <= 0 then
      break
    end
  end
  if left > 0 and #names == 100 then
    reached, at = names[100], '+inf '
  end
  redis.call('HSET', key('swept'), 'at', decimal(now), 'name', reached, 'place', at)
  write_back()
end
