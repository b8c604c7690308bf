-- Read the paused names, and what is known of their pauses.
--
-- KEYS: 1 the board
-- ARGV: none
-- Returns: OK; the names, an empty one is the whole board; names with the entries that say who paused each and why
-- Changes nothing. An entry may be of a pause that an earlier version has ended, and a name may have none.
--
-- include: paused

return {'OK', paused_members(), redis.call('HGETALL', key('pauses'))}
