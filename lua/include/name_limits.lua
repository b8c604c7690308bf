-- include: paused

-- Let claims see the limit of a name (nil: it has none): `paused` is read by each, `limited` by ends.
local function limit_name(name, running)
  local own, names = running and field(name, decimal(running)), {}
  if own then
    redis.call('SADD', key('paused'), own)
  end
  for _, member in ipairs(redis.call('SMEMBERS', key('paused'))) do
    local limited = string.match(member, '^(.*)\n%d+$')
    if limited == name and member ~= own then
      redis.call('SREM', key('paused'), member)
    elseif limited then
      names[#names + 1] = limited .. '\n'
    end
  end
  if #names > 0 then
    redis.call('SET', key('limited'), '\n' .. table.concat(names))
  else
    redis.call('DEL', key('limited'))
  end
end
