-- include: expire_and_promote
-- include: job_rows
-- Posts a batch: each item has the parts of a posting that post.lua names; a second list has the payloads. The caller
-- calls `expire_and_promote` before and `write_back` afterwards.

local aliases = {}
local by_key = {}

local function key_field(item)
  return item[4] and field(item[2], item[4])
end

local function fetch_all(items)
  local uuids, keyed, places, aliased = {}, {}, {}, {}
  for index, item in ipairs(items) do
    uuids[index] = item[1]
    if item[4] then
      keyed[#keyed + 1] = key_field(item)
      places[#places + 1] = key('alias', item[1])
      aliased[#aliased + 1] = item[1]
    end
  end
  fetch(uuids)
  fetch_finished(uuids)
  if #keyed == 0 then
    return
  end
  local others = {}
  for index, uuid in ipairs(redis.call('HMGET', key('keys'), unpack(keyed))) do
    if uuid then
      by_key[keyed[index]] = uuid
      others[#others + 1] = uuid
    end
  end
  for index, uuid in ipairs(redis.call('MGET', unpack(places))) do
    if uuid then
      aliases[aliased[index]] = uuid
      others[#others + 1] = uuid
    end
  end
  fetch(others)
  fetch_finished(others)
end

local function delay_and_lane(item)
  if type(item[7]) == 'table' then
    return unpack(item[7])
  end
  return item[7]
end

local function set_posting(job, item, posting)
  job.priority = item[3]
  -- each posted field: job.FIELD = item[7 + NUMBER]
  local delay = delay_and_lane(item)
  job.run_at = delay and now + delay or item[6]
  if not wait_for_delay(job) then
    join(job, place_of(now, job.priority))
  end
  bodies[job.uuid] = posting
end

-- A job whose sequence is not assigned yet. It is returned like this if another key of the batch is taken.
local function new_job(item, posting)
  local job = {
    uuid = item[1], name = item[2], key = item[4], sequence = 0, created = now, attempts = 0, token = 0,
    history_length = 0, modified = now, lane = select(2, delay_and_lane(item)),
  }
  has_lanes = has_lanes or job.lane ~= nil
  set_posting(job, item, posting)
  histories[job.uuid] = ''
  return job
end

-- The outcome of each posting, given those before it in the batch.
local function plan(items, postings)
  local outcomes, found, is_refused = {}, {}, false
  for index, item in ipairs(items) do
    local uuid, text = item[1], key_field(item)
    local known = jobs[uuid] or jobs[aliases[uuid] or false]
    local holder = text and by_key[text] and expire_or_promote(jobs[by_key[text]])
    if known then
      outcomes[index], found[index] = 'SAME', known
    elseif not holder or not is_live(holder) then
      local job = new_job(item, postings[index])
      jobs[uuid], outcomes[index], found[index] = job, 'POSTED', job
      if text then
        by_key[text] = uuid
      end
    elseif item[5] == 'keep' then
      outcomes[index], found[index] = 'KEPT', holder
    elseif item[5] == 'replace' and holder.state ~= 'CLAIMED' and not newer[holder.uuid] then
      local is_same_lane = holder.lane == select(2, delay_and_lane(item))
      outcomes[index], found[index] = is_same_lane and 'REPLACED' or 'OTHER_LANE', holder
      aliases[uuid], is_refused = holder.uuid, is_refused or not is_same_lane
    else
      outcomes[index], found[index], is_refused = 'TAKEN', holder, true
    end
  end
  return outcomes, found, is_refused
end

local function assign_sequences(outcomes, found)
  local count = 0
  for _, outcome in ipairs(outcomes) do
    count = count + (outcome == 'POSTED' and 1 or 0)
  end
  local sequence = count > 0 and redis.call('HINCRBY', key('counters'), 'sequence', count) - count or 0
  for index, outcome in ipairs(outcomes) do
    if outcome == 'POSTED' then
      sequence = sequence + 1
      found[index].sequence = sequence
    end
  end
end

local function apply_plan(items, postings, outcomes, found)
  assign_sequences(outcomes, found)
  for index, outcome in ipairs(outcomes) do
    local job = found[index]
    if outcome == 'POSTED' then
      record_event(job, 'POSTED')
    elseif outcome == 'REPLACED' then
      moved[job.uuid] = true
      set_posting(job, items[index], postings[index])
      redis.call('SET', key('alias', items[index][1]), job.uuid, 'PX', RETRY_WINDOW / 1000)
      record_event(job, 'REPLACED', nil, nil, items[index][1])
    end
  end
end

-- Post all, or nothing if a key is taken or a lane is another one; returns the outcomes, the jobs, and whether it was
-- refused.
local function post_jobs(items, postings)
  fetch_all(items)
  local outcomes, found, is_refused = plan(items, postings)
  if not is_refused then
    apply_plan(items, postings, outcomes, found)
  end
  return outcomes, found, is_refused
end
