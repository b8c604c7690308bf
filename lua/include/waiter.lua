-- include: clock
-- include: keys
-- A waiter is armed: it stands in `waiters` with the names that it waits for ('' is any) and its claim request, if it
-- has one; in `armed` with the moment until which it sleeps; and in `waiting:NAME` of each name. One claimable job
-- wakes one waiter; a client that is not subscribed any more is skipped.

-- In microseconds; longer ones have no end.
local LONGEST_CLAIM = 4503599627370496

-- The names that an armed waiter waits for, and its claim request.
local function armed_with(id)
  local armed = redis.call('HGET', key('waiters'), id)
  if armed then
    local readable, names, asked = pcall(cmsgpack.unpack, armed)
    return readable and type(names) == 'table' and names or {}, readable and type(asked) == 'table' and asked or nil
  end
end

local function forget(id, names)
  redis.call('HDEL', key('waiters'), id)
  redis.call('ZREM', key('armed'), id)
  for _, name in ipairs(names) do
    redis.call('ZREM', key('waiting', tostring(name)), id)
  end
end

-- The channel of a waiter, or that of its client.
local function channel_of(id)
  return key('wake', string.match(id, '^[^/]*'))
end

-- The first one that waits for a name: its id, its channel, its names and its claim request.
local function first_waiter(name)
  local moment = string.format('%.0f', now)
  for _, wanted in ipairs({name, ''}) do
    local id = redis.call('ZRANGEBYSCORE', key('waiting', wanted), moment, '+inf', 'LIMIT', '0', '1')[1]
    if id then
      local names, asked = armed_with(id)
      names = names and names[1] and names or {wanted}
      return {id = id, channel = channel_of(id), names = names, asked = asked}
    end
  end
end

-- What wakes a waiter, and disarms it, is its id. If it has a claim request, the claim id follows, and the job that is
-- claimed for it.
local function wake(waiter, row)
  forget(waiter.id, waiter.names)
  local message = waiter.asked and cmsgpack.pack({waiter.id, waiter.asked[2], unpack(row or {})}) or waiter.id
  redis.call('SPUBLISH', waiter.channel, message)
end

-- The claim request of a waiter, if a new job may be claimed under it: if it can be read, its claim is long enough to
-- be renewed, and no job is ready that the waiter would claim first.
local function claim_ahead_for(waiter, paused)
  local who, claim_id, expiry = unpack(waiter.asked or {}, 1, 3)
  if type(who) ~= 'string' or type(claim_id) ~= 'string' or type(expiry) ~= 'number'
    or expiry % 1 ~= 0 or expiry < SOON or expiry > LONGEST_CLAIM then
    return
  end
  for _, name in ipairs(waiter.names) do
    if name == '' and redis.call('EXISTS', key('heads')) > 0
      or name ~= '' and not paused[name] and redis.call('ZSCORE', key('heads'), tostring(name)) then
      return
    end
  end
  return waiter.asked
end
