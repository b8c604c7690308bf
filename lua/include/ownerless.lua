-- include: transitions

-- Expire those of these claimed jobs whose owner key is gone, whoever deleted that.
local function expire_ownerless(claimed)
  local keys, seen = {}, {}
  for _, job in ipairs(claimed) do
    local name = key('owner', job.claim_id or '')
    if not seen[name] then
      seen[name], keys[#keys + 1] = true, name
    end
  end
  if #keys == 0 or redis.call('EXISTS', unpack(keys)) == #keys then
    return
  end
  for _, job in ipairs(claimed) do
    if job.state == 'CLAIMED' and redis.call('EXISTS', key('owner', job.claim_id or '')) == 0 then
      expire(job)
    end
  end
end
