#!lua flags=allow-oom
-- Delete a book and its entries.
--
-- KEYS: 1 the board
-- ARGV: 1 uuid
-- Returns: OK, or MISSING
-- A repeat finds nothing, and answers MISSING.
--
-- include: books

remove_entries(ARGV[1])
redis.call('HDEL', key('books'), ARGV[1])
return {redis.call('HDEL', key('versions'), ARGV[1]) == 1 and 'OK' or 'MISSING'}
