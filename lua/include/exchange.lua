-- include: exchangeable
-- include: transitions
-- Exchanges: a job that waits for its lane is claimed for the slot of one that could be claimed, but not by whoever
-- asks: because it has another name, or one that is paused or has as many claims as its limit allows.

-- Claim up to `most` jobs of these names in exchange, by `claim_one`. Looks at some lanes, beginning with that of the
-- rank `from` among those with BLOCKED jobs; returns the rank with which to begin the next time.
local function exchange(names, most, from, claim_one)
  local paused, count, rooms = paused_names()
  local wanted = (paused[''] or not names and count == 0) and {} or blocked_names(names, paused)
  if #wanted == 0 then
    return 0
  end
  local may_claim = granted(names, paused)
  local lanes, reached = lanes_from(from, wanted)

  -- Claim one job of a lane, if there is one.
  local function exchange_in(lane)
    local holder, job = exchangeable_in(lane, wanted, may_claim)
    if not holder then
      return false
    end
    withdraw(holder)
    admit(job)
    claim_one(job)
    write_back()
    if rooms[job.name] then
      rooms[job.name] = rooms[job.name] - 1
      paused[job.name] = rooms[job.name] <= 0
    end
    return true
  end

  local left = most
  for _, lane in ipairs(lanes) do
    for _ = 1, lane_limits[lane].is_strict and 0 or left do
      if not exchange_in(lane) then
        break
      end
      left = left - 1
    end
  end
  return reached
end
