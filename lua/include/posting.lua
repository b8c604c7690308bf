-- Posts a batch: each item has the parts of a posting that post.lua names; a second list has the payloads.
-- In a function of its own, since one of Lua has at most 200 variables.

local ties_in, fetch_all, plan, drop_plan, apply_plan, post_jobs = (function()
  local aliases, by_key, windows = {}, {}, {}
  -- Of graphs that postings of this script are parts of: whether one was given up, and whether its mark was moved on.
  local given_up, is_moved_on = {}, {}

  local function key_field(item)
    return item[4] and field(item[2], item[4])
  end

  -- What a posting has to do with other jobs and with moments, by name; nil if that is at most a lane.
  local function ties_in(item)
    return type(item[7]) == 'table' and item[7][3] or nil
  end

  -- `window:NAME\nKEY` is the uuid of a job that keeps its key also after its end: until then, by its record.
  local function fetch_all(items)
    local uuids, keyed, places, aliased, parents, seen = {}, {}, {}, {}, {}, {}
    for index, item in ipairs(items) do
      uuids[index] = item[1]
      item[7] = is_text(item[7]) and cmsgpack.unpack(item[7]) or item[7]
      local ties = ties_in(item)
      for _, parent in ipairs(ties and ties.parents or {}) do
        if not seen[parent] then
          seen[parent], parents[#parents + 1] = true, parent
        end
      end
      if item[4] then
        keyed[#keyed + 1] = key_field(item)
        places[#places + 1] = key('alias', item[1])
        aliased[#aliased + 1] = item[1]
      end
    end
    for number, parent in ipairs(parents) do
      uuids[#items + number] = parent
    end
    fetch(uuids)
    fetch_finished(uuids)
    if #keyed == 0 then
      return
    end
    for number, text in ipairs(keyed) do
      places[#aliased + number] = key('window', text)
    end
    local others = {}
    for index, uuid in ipairs(redis.call('HMGET', key('keys'), unpack(keyed))) do
      if uuid then
        by_key[keyed[index]] = by_key[keyed[index]] or uuid
        others[#others + 1] = uuid
      end
    end
    for index, uuid in ipairs(redis.call('MGET', unpack(places))) do
      if uuid then
        others[#others + 1] = uuid
        if index <= #aliased then
          aliases[aliased[index]] = uuid
        else
          windows[keyed[index - #aliased]] = uuid
        end
      end
    end
    fetch(others)
    fetch_finished(others)
  end

  local function delay_and_lane(item)
    if type(item[7]) == 'table' then
      return item[7][1], item[7][2] or nil
    end
    return item[7]
  end

  local function set_posting(job, item, posting)
    job.priority = item[3]
    -- each posted field: job.FIELD = item[7 + NUMBER]
    local delay = delay_and_lane(item)
    job.run_at = delay and now + delay or item[6]
    if job.run_at and job.latest then
      job.run_at = math.min(job.run_at, job.latest)
    end
    if not wait_for_delay(job) then
      join(job, place_of(now, job.priority))
    end
    bodies[job.uuid] = posting
  end

  local function tie(job, ties)
    -- each optional_text tie: job.TIE = ties.TIE
    -- each flag tie: job.TIE = ties.TIE
    job.start_by = ties.start_by
    job.latest = ties.max_delay and now + ties.max_delay or ties.latest
    job.key_until = ties.key_for and job.key and now + ties.key_for
    if ties.parents or ties.graph then
      job.has_parents = true
    end
    job.is_tied = true
  end

  -- What it has to do with other jobs stays, and so does the moment to which replacements can delay it. One that waits
  -- for a signal does so no longer.
  local function tie_anew(job, ties)
    job.signal = nil
    job.start_by, job.on_trashed, job.on_complete = ties.start_by, ties.on_trashed, ties.on_complete
    job.key_until = ties.key_for and now + ties.key_for or job.key_until
    if job.is_tied then
      redis.call('ZREM', key('delayed'), job.uuid)
    end
    job.is_tied = job.start_by
      -- each tie: or job.TIE
      or nil
  end

  -- A job whose sequence is not assigned yet. It is returned like this if another key of the batch is taken.
  local function new_job(item, posting)
    local job = {
      uuid = item[1], name = item[2], key = item[4], sequence = 0, created = now, attempts = 0, token = 0,
      history_length = 0, modified = now, lane = select(2, delay_and_lane(item)),
    }
    has_lanes = has_lanes or job.lane ~= nil
    local ties = ties_in(item)
    if ties then
      tie(job, ties)
    end
    set_posting(job, item, posting)
    histories[job.uuid] = ''
    return job
  end

  -- The job that has a key: a live one, or one that keeps it for a while after its end, unless it was cancelled. One
  -- that ends in this very step has it no more.
  local function holder_of(text, ending)
    local job = by_key[text] and expire_or_promote(jobs[by_key[text]])
    if job and is_live(job) and not (job.uuid == ending and (job.key_until or 0) <= now) then
      return job
    end
    job = windows[text] and jobs[windows[text]]
    local is_kept = job and job.key_until and job.key_until > now and outcome_of(job)[1] ~= 'GONE'
    return is_kept and job or nil
  end

  -- The graph or the first parent of a posting that the board does not know, or has given up.
  local function missing_parent(ties, placed)
    local graph = ties.graph
    if graph and given_up[graph] == nil then
      local mark = mark_of('graph:' .. graph)
      given_up[graph] = mark and mark[6] <= now or not mark and redis.call('MGET', key('graph', graph))[1] ~= false
    end
    if graph and given_up[graph] then
      return graph
    end
    for _, parent in ipairs(ties.parents or {}) do
      local job = placed[parent] or expire_or_promote(jobs[parent])
      if not job or newer[job.uuid] then
        return parent
      end
    end
  end

  -- The outcome of each posting, given those before it in the batch; and the missing parents.
  local function plan(items, postings, ending)
    local outcomes, found, is_refused, missing, placed = {}, {}, false, {}, {}
    for index, item in ipairs(items) do
      local uuid, text, ties = item[1], key_field(item), ties_in(item)
      local known = jobs[uuid] or jobs[aliases[uuid] or false]
      local holder = text and holder_of(text, ending)
      if known then
        outcomes[index], found[index] = 'SAME', known
      elseif not holder then
        local job = new_job(item, postings[index])
        outcomes[index], found[index] = 'POSTED', job
        missing[index] = ties and missing_parent(ties, placed)
        if missing[index] then
          outcomes[index], is_refused = 'NO_PARENT', true
        else
          jobs[uuid] = job
          if text then
            by_key[text] = uuid
          end
        end
      elseif item[5] == 'keep' then
        outcomes[index], found[index] = 'KEPT', holder
      elseif item[5] == 'replace' and is_live(holder) and holder.state ~= 'CLAIMED' and not newer[holder.uuid] then
        local is_same_lane = holder.lane == select(2, delay_and_lane(item))
        outcomes[index], found[index] = is_same_lane and 'REPLACED' or 'OTHER_LANE', holder
        aliases[uuid], is_refused = holder.uuid, is_refused or not is_same_lane
      else
        outcomes[index], found[index], is_refused = 'TAKEN', holder, true
      end
      placed[uuid] = found[index]
    end
    return outcomes, found, is_refused, missing, placed
  end

  -- Forget what a plan would have posted.
  local function drop_plan(items, outcomes)
    for index, item in ipairs(items) do
      if outcomes[index] == 'POSTED' then
        jobs[item[1]], bodies[item[1]] = nil, nil
      end
    end
    by_key, windows, aliases = {}, {}, {}
  end

  -- Let a new job wait for its graph and its parents, as far as these have not ended.
  local function connect(job, ties, placed)
    if ties.graph then
      local parent = 'graph:' .. ties.graph
      local children = list_in(relatives.adds, key('children', parent))
      children[#children + 1], children[#children + 2] = '0', job.uuid
      if not is_moved_on[parent] then
        is_moved_on[parent] = true
        write_mark(parent, {'GONE', '', false, false, '', now + GRAPH_TTL})
      end
    end
    local is_held, is_bad, seen = ties.graph ~= nil, false, {}
    for _, parent in ipairs(ties.parents or {}) do
      local its = placed[parent] or jobs[parent]
      if not seen[its.uuid] then
        seen[its.uuid] = true
        local outcome = add_edge(job, its)
        is_held, is_bad = is_held or outcome == 'OPEN', is_bad or outcome == 'FAILED' or outcome == 'GONE'
      end
    end
    relatives.is_awaited = true
    if is_bad or not is_held then
      table.insert(relatives.unsettled, job)
    end
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

  local function keep_key(job, ties)
    if ties.key_for and job.key then
      redis.call('SET', key('window', field(job.name, job.key)), job.uuid, 'PXAT', expiry_of(now + ties.key_for))
    end
  end

  local function apply_plan(items, postings, outcomes, found, placed)
    assign_sequences(outcomes, found)
    for index, outcome in ipairs(outcomes) do
      local job = found[index]
      local ties = ties_in(items[index])
      if outcome == 'POSTED' then
        record_event(job, 'POSTED')
        if ties then
          if ties.parents or job.has_children then
            take_keys(job)
          end
          keep_key(job, ties)
          if job.has_parents then
            connect(job, ties, placed)
          end
        end
      elseif outcome == 'REPLACED' then
        moved[job.uuid] = true
        if ties or job.is_tied then
          tie_anew(job, ties or {})
          keep_key(job, ties or {})
        end
        set_posting(job, items[index], postings[index])
        redis.call('SET', key('alias', items[index][1]), job.uuid, 'PX', RETRY_WINDOW / 1000)
        record_event(job, 'REPLACED', nil, nil, items[index][1])
      end
    end
  end

  -- Post all, or nothing if a key is taken, a lane is another one, or a parent is missing; returns the outcomes, the
  -- jobs, whether it was refused, and the missing parents.
  local function post_jobs(items, postings, ending)
    fetch_all(items)
    local outcomes, found, is_refused, missing, placed = plan(items, postings, ending)
    if not is_refused then
      apply_plan(items, postings, outcomes, found, placed)
    end
    return outcomes, found, is_refused, missing
  end

  return ties_in, fetch_all, plan, drop_plan, apply_plan, post_jobs
end)()
