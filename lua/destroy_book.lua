#!lua flags=allow-oom
-- Delete a book.
--
-- KEYS: 1 the board
-- ARGV: 1 uuid
-- Returns: OK, or MISSING
-- A repeat finds nothing, and answers MISSING.
--
-- include: board

redis.call('HDEL', key('books'), ARGV[1])
return {redis.call('HDEL', key('versions'), ARGV[1]) == 1 and 'OK' or 'MISSING'}
