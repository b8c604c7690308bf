-- include: prelude
-- Participants: `entities` (a hash) has each one's body by its kind and name, `seen` (a hash) msgpack [when it was
-- seen, its TTL].

-- When a participant was last seen, and its TTL; nothing if the value can't be read.
local function decode_seen(value)
  local readable, seen = pcall(cmsgpack.unpack, value)
  if readable and type(seen) == 'table' and is_number(seen[1]) and is_number(seen[2]) then
    return seen[1], seen[2]
  end
end
