-- The present moment by the server's clock. All moments are whole microseconds since the epoch, which a double holds
-- exactly.

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local SOON = 6 * 1000000
