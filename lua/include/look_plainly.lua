-- include: arming
-- include: plain
-- include: ready_queue
-- The plain case of ready_in.lua: nothing is ready, claimed or BLOCKED, or becomes due, and the claims were searched
-- lately.

local function look_plainly(request)
  local searched = tonumber(redis.call('HGET', key('swept'), 'at') or '')
  if not searched or math.abs(now - searched) >= RESCUE_INTERVAL then
    return
  end
  -- One look at all of them is enough on most boards.
  if redis.call('EXISTS', key('leases'), key('delayed'), key('heads'), key('blocked_lanes')) > 0
    and (redis.call('EXISTS', key('leases'), key('delayed'), key('blocked_lanes')) > 0
      or #ready_names(request[1], 1) > 0) then
    return
  end
  return {'OK', -1, arm_anew(request, nil), 0}
end
