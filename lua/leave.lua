#!lua flags=allow-oom
-- Wait no more.
--
-- KEYS: 1 the board
-- ARGV: 1 who waited ("client/number")
-- Returns: OK
-- A repeat finds nobody.
--
-- include: wake

disarm(ARGV[1])
return {'OK'}
