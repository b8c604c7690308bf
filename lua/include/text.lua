-- Whether one text sorts after another byte by byte, as in a sorted set; Lua compares by the server's locale.
local function comes_after(one, other)
  for at = 1, math.min(#one, #other) do
    local mine, its = string.byte(one, at), string.byte(other, at)
    if mine ~= its then
      return mine > its
    end
  end
  return #one > #other
end

-- Whether these bytes are UTF-8, as every id and name is.
local function is_utf8(text)
  text = string.gsub(text, '[\194-\223][\128-\191]', ' ')
  text = string.gsub(text, '[\224-\239][\128-\191][\128-\191]', ' ')
  text = string.gsub(text, '[\240-\244][\128-\191][\128-\191][\128-\191]', ' ')
  return not string.find(text, '[\128-\255]')
end
