-- All keys of a board begin with KEYS[1] and so lie in one slot. KEYS[1] itself is never a key: while a Cluster moves
-- the slot, its node has to refuse every script for that reason.

local board = KEYS[1]

local function key(kind, name)
  return name and board .. ':' .. kind .. ':' .. name or board .. ':' .. kind
end
