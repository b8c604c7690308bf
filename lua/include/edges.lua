-- Edges between parents and children, and marks.
--
-- `parents:CHILD` (a sorted set) has the parents of a job, `children:PARENT` (another) its children, all with the score
-- 0, and so in the order of their uuids. `ends:CHILD` (a hash) has of each parent that has ended an outcome, its name,
-- its result or false, and whether that was too long; `failed:CHILD` and `gone:CHILD` (sets) the parents of these
-- outcomes. A parent of which `ends` has nothing is OPEN, so what a child waits for is counted without a look at each.
--
-- A graph is a parent too, named "graph:" and its uuid: the record of a child says that it is a part of one that is not
-- complete. `graph:UUID` is what became of it, for a while after all its children know.
--
-- `marks` (a hash) has of each parent of which not all edges are up to date what they have to say, after which child to
-- go on, and when: a list. The timer `delayed` has it too: a tabulator, and the parent.
-- The mark of a job that was given up with its graph says NEVER: its edges go.

local OUTCOMES = {OPEN = true, DONE = true, FAILED = true, GONE = true, NEVER = true}

local function mark_timer(parent)
  return '\t' .. parent
end

-- A stored mark as a list: outcome, name, result or false, whether that is cut, cursor, due; nil if there is none that
-- can be read.
local function decode_mark(value)
  local is_readable, mark = pcall(cmsgpack.unpack, value or '')
  if is_readable and type(mark) == 'table' and OUTCOMES[mark[1]] and is_text(mark[2]) and is_text(mark[3] or '')
    and is_text(mark[5]) and is_number(mark[6]) then
    return mark
  end
end

local function mark_of(parent)
  return decode_mark(redis.call('HMGET', key('marks'), parent)[1])
end

local function write_mark(parent, mark)
  redis.call('HSET', key('marks'), parent, cmsgpack.pack(mark))
  redis.call('ZADD', key('delayed'), decimal(mark[6]), mark_timer(parent))
end

-- Let the edges of a graph say from now on what has become of it.
local function end_graph(graph, outcome)
  table.insert(relatives.steps, {'graph:' .. graph, outcome, '', false, false})
  relatives.is_awaited = true
end

-- Write into an edge how the parent stands.
local function write_end(child, parent, ending)
  local outcome = ending[1]
  local was_open = outcome ~= 'OPEN'
    and redis.call('HSET', key('ends', child), parent, cmsgpack.pack(unpack(ending))) == 1
  if outcome == 'OPEN' then
    redis.call('HDEL', key('ends', child), parent)
  end
  if not was_open then
    redis.call('SREM', key('failed', child), parent)
    redis.call('SREM', key('gone', child), parent)
  end
  if outcome == 'FAILED' or outcome == 'GONE' then
    redis.call('SADD', key(string.lower(outcome), child), parent)
  end
end

-- How a parent stands, as the end of an edge says it; if that can't be read, as the parent stands now.
local function ending_in(value, parent)
  local is_readable, outcome, name, result, is_cut = pcall(cmsgpack.unpack, value)
  if is_readable and OUTCOMES[outcome] and is_text(name) and is_text(result or '') then
    return {outcome, name, result, is_cut}, true
  end
  local job = load_any(parent)
  return job and outcome_of(job) or {'GONE', '', false, false}, false
end

-- Let a child wait for a parent, or know how that has ended. `carry_out` writes the sorted sets. Returns the outcome.
local function add_edge(child, parent)
  local ending, adds = outcome_of(parent), relatives.adds
  local outcome = ending[1]
  local parents, children = list_in(adds, key('parents', child.uuid)), list_in(adds, key('children', parent.uuid))
  parents[#parents + 1], parents[#parents + 2] = '0', parent.uuid
  children[#children + 1], children[#children + 2] = '0', child.uuid
  if outcome ~= 'OPEN' then
    write_end(child.uuid, parent.uuid, ending)
  end
  if parent.state == 'COMPLETE' then
    local owners = list_in(adds, key('own_keys'))
    owners[#owners + 1] = decimal(parent.retained + RETRY_WINDOW)
    owners[#owners + 1] = parent.uuid
  else
    take_keys(parent)
    if not parent.has_children then
      parent.has_children = true
      keep(parent)
    end
  end
  relatives.is_awaited = true
  return outcome
end
