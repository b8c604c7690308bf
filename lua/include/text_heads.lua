-- What msgpack writes before a text, by the length of the text in bytes.
local text_heads = setmetatable({}, {__index = function(known, length)
  local low, high = length % 256, math.floor(length / 256)
  known[length] = length < 32 and string.char(160 + length)
    or length < 256 and string.char(217, length)
    or length < 65536 and string.char(218, high, low)
    or string.char(219, math.floor(high / 65536), math.floor(high / 256) % 256, high % 256, low)
  return known[length]
end})
