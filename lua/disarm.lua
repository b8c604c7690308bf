#!lua flags=allow-oom
-- Forget a waiter.
--
-- KEYS: 1 the board
-- ARGV: 1 the waiter ("client/number")
-- Returns: OK
-- A repeat finds no waiter.
--
-- include: waiters

disarm(ARGV[1])
return {'OK'}
