#!lua flags=allow-oom
-- Forget a waiter.
--
-- KEYS: 1 the board
-- ARGV: 1 the waiter ("client/number")
-- Returns: OK, and the claim id with which it was armed, or false
-- A repeat finds no waiter.
--
-- include: waiters

local asked = disarm(ARGV[1])
return {'OK', asked and asked[2] or false}
