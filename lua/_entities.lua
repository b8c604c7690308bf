-- include: board
-- Participants: `entities` (a hash) has what each says of itself by its kind and name, `seen` (a hash) msgpack [when it
-- was seen, its TTL].

-- When a participant was seen, and its TTL; nothing if that can't be read.
local function unfold_seen(value)
  local readable, seen = pcall(cmsgpack.unpack, value)
  if readable and type(seen) == 'table' and is_number(seen[1]) and is_number(seen[2]) then
    return seen[1], seen[2]
  end
end
