-- include: prelude
-- include: ttl
-- The owner keys: `owner:<claim id>` is the number of jobs that are claimed under a claim id, and lives until the last
-- of these claims expires; for ever, if one never does. Without it they are over.

-- By claim id: how many claims begin and end, and the last moment until which those hold that are written.
local owner_keys = {}

local function owner_key_of(claim_id)
  local owner_key = owner_keys[claim_id]
  if not owner_key then
    owner_key = {begun = 0, ended = 0, last = 0}
    owner_keys[claim_id] = owner_key
  end
  return owner_key
end

-- A key that is gone does not come back for claims that it had. MGET never fails, whatever stands in a key.
local function write_owner_keys()
  for claim_id, change in pairs(owner_keys) do
    local name = key('owner', claim_id)
    local known = redis.call('MGET', name)[1]
    local count = change.begun + (known and (tonumber(known) or 0) - change.ended or 0)
    local ttl = change.last < math.huge and expiry_of(change.last)
    if count <= 0 then
      redis.call('DEL', name)
    elseif not ttl then
      redis.call('SET', name, count)
    elseif not known then
      redis.call('SET', name, count, 'PXAT', ttl)
    else
      redis.call('SET', name, count, 'KEEPTTL')
      redis.call('PEXPIREAT', name, ttl, 'GT')
    end
  end
  owner_keys = {}
end
