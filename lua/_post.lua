-- include: settle
-- include: show
-- What becomes of a batch of postings: each is [uuid, name, priority, key or nil, if_exists, run_at or nil,
-- delay or nil, max_attempts or nil], and its bytes are at the same place of a second list. `settle` comes first,
-- `flush` afterwards.

local aliases = {}
local by_key = {}

local function text_of(item)
  return item[4] and field(item[2], item[4])
end

local function fetch_all(items)
  local uuids, keyed, places, aliased = {}, {}, {}, {}
  for index, item in ipairs(items) do
    uuids[index] = item[1]
    if item[4] then
      keyed[#keyed + 1] = text_of(item)
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

-- The lowest place is claimed first: by priority, then by sequence.
local function set_place(job)
  job.place = string.format('%.0f', job.sequence - job.priority * PLACES_OF_PRIORITY)
end

local function fill(job, item, posting)
  job.priority, job.max_attempts = item[3], item[8]
  job.run_at = item[7] and now + item[7] or item[6]
  settle_state(job)
  bodies[job.uuid] = posting
end

-- A job without its number: it gets that when it is entered, but is shown without it if another one's key is taken. So
-- it has a place already, since a record with a gap would be no array.
local function draft(item, posting)
  local job = {
    uuid = item[1], name = item[2], key = item[4], sequence = 0, place = '0', created = now, attempts = 0, token = 0,
    lines = 0, modified = now,
  }
  fill(job, item, posting)
  histories[job.uuid] = ''
  return job
end

-- What would become of each posting, those before it counted in.
local function plan(items, postings)
  local outcomes, found, taken = {}, {}, false
  for index, item in ipairs(items) do
    local uuid, text = item[1], text_of(item)
    local known = jobs[uuid] or jobs[aliases[uuid] or false]
    local holder = text and by_key[text] and settle_job(jobs[by_key[text]])
    if known then
      outcomes[index], found[index] = 'SAME', known
    elseif not holder or not is_live(holder) then
      local job = draft(item, postings[index])
      jobs[uuid], outcomes[index], found[index] = job, 'POSTED', job
      if text then
        by_key[text] = uuid
      end
    elseif item[5] == 'keep' then
      outcomes[index], found[index] = 'KEPT', holder
    elseif item[5] == 'replace' and holder.state ~= 'CLAIMED' and not newer[holder.uuid] then
      outcomes[index], found[index] = 'REPLACED', holder
      aliases[uuid] = holder.uuid
    else
      outcomes[index], found[index], taken = 'TAKEN', holder, true
    end
  end
  return outcomes, found, taken
end

local function number(outcomes, found)
  local count = 0
  for _, outcome in ipairs(outcomes) do
    count = count + (outcome == 'POSTED' and 1 or 0)
  end
  local sequence = count > 0 and redis.call('HINCRBY', key('counters'), 'sequence', count) - count or 0
  for index, outcome in ipairs(outcomes) do
    if outcome == 'POSTED' then
      sequence = sequence + 1
      found[index].sequence = sequence
      set_place(found[index])
    end
  end
end

local function enter(items, postings, outcomes, found)
  number(outcomes, found)
  for index, outcome in ipairs(outcomes) do
    local job = found[index]
    if outcome == 'POSTED' then
      tell(job, 'POSTED')
    elseif outcome == 'REPLACED' then
      moved[job.uuid] = true
      fill(job, items[index], postings[index])
      set_place(job)
      redis.call('SET', key('alias', items[index][1]), job.uuid, 'PX', RETRY_WINDOW / 1000)
      tell(job, 'REPLACED', nil, nil, items[index][1])
    end
  end
end

-- Put all on the board, or nothing of it; what became of each, the jobs, and whether nothing was done.
local function post(items, postings)
  fetch_all(items)
  local outcomes, found, taken = plan(items, postings)
  if not taken then
    enter(items, postings, outcomes, found)
  end
  return outcomes, found, taken
end
