-- A posting is this many values of a request, as post.lua names them.
local POSTING_PARTS = 7
  -- each posted field: + 1
