-- include: events
-- include: lane_scores
-- include: limits
-- include: lists
-- Lanes: which jobs of one hold its slots, and which wait for one; what a look at a lane admits and withdraws, as
-- jobboard/backends/lanes.py plans it for other stores.
--
-- `lane:LANE` (a sorted set) has the BLOCKED jobs of a lane by place, and `lane:LANE\nNAME` those of one name;
-- `held:LANE` those that hold its slots: the claimable ones by place, and before them the claimed ones, which all have
-- one score; `retrying:LANE` those that were claimed and are DELAYED. `lanes` has the lanes of which there are any,
-- `blocked_lanes` those with BLOCKED jobs by their number, `rates` the moment that the rate of a lane has come to,
-- and `offered` how many could be claimed at the end of the last look, if its rate lets several start at once and
-- there were several. A lane that must be looked at at a moment is a member of the timer `delayed`: a line break, and
-- the lane.

-- How many jobs a look withdraws or admits at most, beside those that join in the same step; and all looks of a step.
local MAX_MOVES, MAX_MOVES_OF_STEP = 50, 200
-- A timer of a rate fires at most this often.
local LEAST_INTERVAL = 1000

-- Lanes that are to be looked at although no job of theirs has changed; and those that need another look now.
local asked_lanes, unfinished_lanes = {}, {}
-- BLOCKED jobs that have not joined their lane in this step, though their lane did not have them among such.
local is_withdrawn = {}

local function lane_timer(lane)
  return '\n' .. lane
end

-- An event, and a line of history only if the job is to keep it.
local function tell(job, kind, is_kept)
  if is_kept then
    record_event(job, kind)
  else
    mark_changed(job)
    announce(kind, job.uuid, job.name, history_entry(kind))
  end
end

-- Let a job wait for its lane again, where it waited before.
local function block_again(job)
  job.state = 'BLOCKED'
  job.place = job.since and place_of(job.since, job.priority) or job.place
end

local function withdraw(job)
  block_again(job)
  is_withdrawn[job.uuid] = true
  tell(job, 'BLOCKED')
end

-- Let a job that waited for its lane be claimable, behind those that are. Jobs of two names may exchange a slot often:
-- that must not drive all else out of the history.
local function admit(job)
  local is_first = not job.since
  job.since = job.since or moment_of(job.place, job.priority)
  job.state, job.place = 'UNCLAIMED', place_of(now, job.priority)
  tell(job, 'ADMITTED', is_first)
end

-- Add to lists what is to be written about one job and its lane.
local function list_in_lane(lists, set, job, place)
  local member, list = member_of(job.uuid, job.sequence), list_in(lists, key(set, job.lane))
  if place then
    list[#list + 1] = place
  end
  list[#list + 1] = member
  if set == 'lane' then
    list = list_in(lists, key(set, field(job.lane, job.name)))
    if place then
      list[#list + 1] = place
    end
    list[#list + 1] = member
  end
end

local function score_in_lane(job)
  return job.state == 'CLAIMED' and CLAIMED_SCORE or job.place
end

-- Bring the lanes of changed jobs up to date, and look at those whose slots may have become free, or be missing. It
-- changes further jobs, and is called before `write_back` writes any. `soon` gets the names of which a waiter must
-- look again.
local function look_at_lanes(soon)
  local adds, removals, lanes, joined, had_blocked = {}, {}, {}, {}, {}
  local left = MAX_MOVES_OF_STEP

  local function visit(lane)
    if not joined[lane] then
      joined[lane] = {}
      lanes[#lanes + 1] = lane
    end
  end

  local function write_lists()
    write_all('ZREM', removals)
    write_all('ZADD', adds)
    adds, removals = {}, {}
  end

  local function add(index, score, lane)
    local list = list_in(adds, key(index))
    list[#list + 1], list[#list + 2] = score, lane
  end

  local function remove(index, lane)
    table.insert(list_in(removals, key(index)), lane)
  end

  -- Let the sets of its lane have a changed job, unless it joins the lane: then it may hold a slot at once.
  local function move(job)
    local uuid, lane = job.uuid, job.lane
    local was, set = lane_sets[uuid], lane_set_of(job)
    if was and was ~= set then
      list_in_lane(removals, was, job)
      had_blocked[lane] = had_blocked[lane] or was == 'lane'
    end
    if set and not was then
      add('lanes', '0', lane)
    end
    if job.state ~= 'CLAIMED' then
      visit(lane)
    end
    if set == 'lane' and was ~= 'lane' and not is_withdrawn[uuid] then
      table.insert(joined[lane], job)
    elseif set and (was ~= set or job.state ~= before[uuid] or moved[uuid]) then
      list_in_lane(adds, set, job, score_in_lane(job))
    end
    lane_sets[uuid], is_withdrawn[uuid] = set, nil
  end

  -- Without a limit nothing waits, but for what a look has still to admit: such a look is due then.
  local function join_unlimited(lane)
    for _, job in ipairs(joined[lane]) do
      job.state, lane_sets[job.uuid] = 'UNCLAIMED', 'held'
      list_in_lane(adds, 'held', job, job.place)
    end
    if had_blocked[lane] then
      asked_lanes[lane] = true
    elseif #joined[lane] == 0
      and redis.call('EXISTS', key('held', lane), key('lane', lane), key('retrying', lane)) == 0 then
      remove('lanes', lane)
    end
    joined[lane] = nil
  end

  -- A lane as the look finds it: what is read of all lanes before any is looked at. `first` has its first BLOCKED jobs
  -- and their places, one more than may be admitted.
  local function survey(lane)
    local limit, joining = lane_limits[lane], joined[lane]
    local view = {lane = lane, limit = limit, joined = joining, is_new = {}, admitted = 0, withdrawn = 0, first = {}}
    view.held = redis.call('ZCARD', key('held', lane))
    if limit.is_strict then
      view.held = view.held + redis.call('ZCARD', key('retrying', lane))
    end
    view.waiting = redis.call('ZCARD', key('lane', lane))
    view.free = math.max(0, limit.running - view.held)
    if view.waiting > 0 then
      view.first = redis.call('ZRANGE', key('lane', lane), 0, math.min(view.free, MAX_MOVES), 'WITHSCORES')
    end
    for _, job in ipairs(joining) do
      view.is_new[job.uuid] = true
    end
    return view
  end

  -- Those of these members that are such a job of the lane as they stand for.
  local function jobs_in(lane, members, state)
    local uuids, found = uuids_of(members), {}
    fetch(uuids)
    for _, uuid in ipairs(uuids) do
      local job = jobs[uuid]
      if job and job.state == state and job.lane == lane and not newer[uuid] then
        found[#found + 1] = job
      end
    end
    return found
  end

  -- The first jobs that wait for a lane, and those that join it in this step, in the order of the lane.
  local function first_waiting(view, count)
    local found, wanted = {}, math.min(count, view.waiting)
    for _, most in ipairs({count, count + MAX_SKIPPED}) do
      if #found < wanted then
        found = jobs_in(view.lane, redis.call('ZRANGE', key('lane', view.lane), 0, most - 1), 'BLOCKED')
      end
    end
    for _, job in ipairs(view.joined) do
      found[#found + 1] = job
    end
    if #view.joined > 0 and #found > 1 then
      table.sort(found, function(one, other)
        local place, its = tonumber(one.place), tonumber(other.place)
        return place < its or place == its and one.sequence < other.sequence
      end)
    end
    return found
  end

  -- The last jobs of a lane that can be claimed, the last one first.
  local function last_claimable(lane, count)
    return jobs_in(lane, redis.call(
      'ZRANGE', key('held', lane), '+inf', '(' .. CLAIMED_SCORE, 'BYSCORE', 'REV', 'LIMIT', 0, count), 'UNCLAIMED')
  end

  local function count_claimable(lane)
    return redis.call('ZCOUNT', key('held', lane), '(' .. CLAIMED_SCORE, '+inf')
  end

  -- How many of the jobs that there is room for the rate lets start now. A job that can be claimed counts as one that
  -- starts, once it is admitted. Those that the last look offered may have started just now, and time has saved up
  -- nothing beside them but one start. While as many wait to be claimed as may start at once, it saves up none.
  local function limit_starts(view, rate, room)
    local was = tonumber(redis.call('ZSCORE', key('rates'), view.lane) or 0)
    -- What a slower rate has come to before counts no more than a burst of this one.
    local next_at, count = math.min(was, now + rate.burst * rate.interval), 0
    local had_offered = rate.burst > 1 and tonumber(redis.call('ZSCORE', key('offered'), view.lane) or 0) or 0
    if had_offered > 1 then
      next_at = math.max(next_at, now + (math.min(had_offered, rate.burst) - 1) * rate.interval)
    end
    local claimable = (room > 0 or rate.burst > 1) and count_claimable(view.lane) or 0
    for _ = 1, room do
      -- Sums of moments are rounded.
      if next_at - (rate.burst - 1) * rate.interval > now + 1 then
        break
      end
      if claimable + count >= rate.burst then
        next_at = math.max(next_at, now + rate.burst * rate.interval)
        break
      end
      next_at, count = math.max(next_at, now) + rate.interval, count + 1
    end
    if next_at ~= was then
      add('rates', string.format('%.17g', next_at), view.lane)
    end
    local offered = math.min(claimable + count, rate.burst)
    if offered > 1 and offered ~= had_offered then
      add('offered', offered, view.lane)
    elseif offered <= 1 and had_offered > 0 then
      remove('offered', view.lane)
    end
    if count < room then
      view.look_at = math.max(next_at - (rate.burst - 1) * rate.interval, now + LEAST_INTERVAL)
    end
    return count
  end

  local function admit_one(view, job)
    if view.is_new[job.uuid] then
      -- It joins in this very step, and never waited.
      job.state, view.is_new[job.uuid] = 'UNCLAIMED', nil
    else
      list_in_lane(removals, 'lane', job)
      admit(job)
      view.admitted = view.admitted + 1
    end
    list_in_lane(adds, 'held', job, job.place)
    lane_sets[job.uuid] = 'held'
  end

  local function is_pause_over_soon(view)
    return view.limit.paused_until and view.limit.paused_until - now < SOON
  end

  local function withdraw_one(view, job)
    list_in_lane(removals, 'held', job)
    withdraw(job)
    view.withdrawn = view.withdrawn + 1
    soon[job.name] = soon[job.name] or is_pause_over_soon(view) or nil
    list_in_lane(adds, 'lane', job, job.place)
    lane_sets[job.uuid], is_withdrawn[job.uuid] = 'lane', nil
  end

  -- Withdraw what can be claimed and is over the limit, the last first; returns whether that takes another look.
  local function withdraw_excess(view, most)
    local excess = view.held - view.limit.running
    if excess <= 0 then
      return false
    end
    for _, job in ipairs(last_claimable(view.lane, math.min(excess, most))) do
      withdraw_one(view, job)
    end
    return excess > most and count_claimable(view.lane) > most
  end

  -- Admit the first jobs for which there is room; returns whether that takes another look.
  local function admit_first(view, most)
    local candidates = view.waiting + #view.joined
    local room = math.min(view.free, candidates)
    local count = math.min(room, most + #view.joined)
    local waiting = count > 0 and first_waiting(view, count) or {}
    count = math.min(count, #waiting)
    local is_over = view.held > view.limit.running
    local allowed = view.limit.rate and not is_over and limit_starts(view, view.limit.rate, count) or count
    for number = 1, allowed do
      admit_one(view, waiting[number])
    end
    view.following = waiting[allowed + 1]
    return allowed == most + #view.joined and room > allowed
  end

  -- Whether a job that waits has a better priority than one that can be claimed, by their places.
  local function has_better(view)
    local last = view.held > 0 and redis.call('ZRANGE', key('held', view.lane), -1, -1, 'WITHSCORES')[2]
    if not last or tonumber(last) <= tonumber(CLAIMED_SCORE) then
      return false
    end
    local place = tonumber(view.first[2 * view.admitted + 2]) or math.huge
    for _, job in ipairs(view.joined) do
      place = view.is_new[job.uuid] and math.min(place, job.place) or place
    end
    return math.floor(place / PLACES_OF_PRIORITY) < math.floor(last / PLACES_OF_PRIORITY)
  end

  -- Let blocked jobs of a better priority go before claimable ones; in a strict lane, before those never claimed.
  local function exchange_priorities(view)
    local waiting = {}
    for _, job in ipairs(first_waiting(view, 2 * MAX_MOVES)) do
      waiting[#waiting + 1] = job.state == 'BLOCKED' and job or nil
    end
    local at = 1
    for _, worse in ipairs(last_claimable(view.lane, 2 * MAX_MOVES)) do
      local better = waiting[at]
      if not better or better.priority <= worse.priority or view.withdrawn >= MAX_MOVES then
        return
      end
      if not (view.limit.is_strict and worse.token ~= 0) then
        withdraw_one(view, worse)
        admit_one(view, better)
        at = at + 1
      end
    end
  end

  local function look_at_lane(view)
    -- Exchanges may have taken more than was left.
    local most = math.max(0, math.min(MAX_MOVES, left))
    local is_unfinished = withdraw_excess(view, most) or admit_first(view, most)
    if has_better(view) then
      exchange_priorities(view)
    end
    left = left - view.admitted - view.withdrawn
    if is_unfinished then
      view.look_at = now
    end
  end

  -- Look at a paused lane again when its pause ends.
  local function look_after_pause(view)
    view.look_at = view.look_at or view.limit.paused_until
    for _, job in ipairs(is_pause_over_soon(view) and first_waiting(view, MAX_MOVES) or {}) do
      soon[job.name] = true
    end
  end

  -- What a look leaves behind, beside its jobs.
  local function finish_look(view)
    local lane, blocked = view.lane, view.waiting + view.withdrawn - view.admitted
    for _, job in ipairs(view.joined) do
      if view.is_new[job.uuid] then
        blocked = blocked + 1
        list_in_lane(adds, 'lane', job, job.place)
        record_event(job, 'BLOCKED')
        soon[job.name] = soon[job.name] or redis.call('EXISTS', state_index('BLOCKED', job.name)) == 0 or nil
      end
    end
    if blocked > 0 then
      add('blocked_lanes', blocked, lane)
    elseif view.waiting > 0 or had_blocked[lane] then
      remove('blocked_lanes', lane)
    end
    if blocked == 0 and view.held + #view.joined + view.admitted == 0
      and redis.call('EXISTS', key('retrying', lane)) == 0 then
      remove('lanes', lane)
    end
    if blocked > 0 then
      look_after_pause(view)
    end
    if view.look_at then
      add('delayed', string.format('%.0f', view.look_at), lane_timer(lane))
      unfinished_lanes[lane] = view.look_at <= now or nil
      if view.following and view.look_at - now < SOON then
        soon[view.following.name] = true
      end
    end
  end

  for number = 1, #changed do
    if changed[number].lane then
      move(changed[number])
    end
  end
  write_lists()
  fetch_limits(lanes)
  local limited = {}
  for _, lane in ipairs(lanes) do
    if lane_limits[lane] ~= UNLIMITED or asked_lanes[lane] then
      limited[#limited + 1] = lane
    else
      join_unlimited(lane)
    end
  end
  lanes = limited
  for lane in pairs(asked_lanes) do
    visit(lane)
  end
  asked_lanes = {}
  fetch_limits(lanes)
  local views, members = {}, {}
  for number, lane in ipairs(lanes) do
    local view = survey(lane)
    views[number] = view
    for at = 1, math.min(#view.first / 2, view.free) do
      members[#members + 1] = view.first[2 * at - 1]
    end
  end
  fetch(uuids_of(members))
  for _, view in ipairs(views) do
    look_at_lane(view)
    finish_look(view)
  end
  write_lists()
end
