-- The score of claimed jobs among those that hold a slot of their lane: less than every place.
local CLAIMED_SCORE = '-9007199254740992'
