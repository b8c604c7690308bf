-- When a key expires that stands for something until this moment: up to a millisecond later, since TTLs are counted in
-- milliseconds. A claim ends to the microsecond all the same, by `leases`.
local function expiry_of(moment)
  return string.format('%.0f', math.ceil(moment / 1000))
end
