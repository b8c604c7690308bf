"""The statements about everything but jobs and schedules: the schema's version, boards, pauses, participants, books."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, exists, func, insert, literal_column, not_, outerjoin, select, text, update

from jobboard.backends.sql.schema import boards, book_entries, books, entities, journal, limits, meta, pauses
from jobboard.backends.sql.statement import Statement, insert_new, p, parameters, put

READ_VERSION = Statement(select(meta.c.value).where(meta.c.name == "version"))
IDENTITY = Statement(select(meta.c.value).where(meta.c.name == "identity"))
BOARD_NAMES = Statement(select(boards.c.name))
FIND_BOARD = Statement(select(boards.c.id).where(boards.c.name == p("name")))
# What finds the identity of an installation, or a board, and what adds it.
INSTALLATION = IDENTITY, insert_new(meta, ["name"], {"name": "identity", "value": p("identity")})
BOARD = FIND_BOARD, insert_new(boards, ["name"], {"name": p("name")})

#: The identity, and the number of a board or NULL.
IDENTITY_AND_BOARD = Statement(
    select(meta.c.value, select(boards.c.id).where(boards.c.name == p("name")).scalar_subquery()).where(
        meta.c.name == "identity"
    )
)

SERVER_VERSION = Statement(select(func.version()), sqlite=select(func.printf("SQLite %s", func.sqlite_version())))

#: What a commit waits for, as the server is set up for this login.
PERSISTENCE = Statement(
    select(literal_column("@@innodb_flush_log_at_trx_commit")),
    postgresql=select(func.current_setting("fsync"), func.current_setting("synchronous_commit")),
)

# Old rows stay while a transaction may see them; those of other users have no xmin here without pg_read_all_stats. What
# a VACUUM sees itself holds nothing back. Of a slot it is not told since when; while somebody reads it, it moves on.
_ON_POSTGRESQL = """
SELECT * FROM (
    SELECT CAST(pid AS text),
        'a transaction of ' || concat_ws(', ', usename, nullif(application_name, ''), client_addr),
        'VACUUM', format('SELECT pg_terminate_backend(%s)', pid),
        CAST(extract(epoch FROM clock_timestamp() - xact_start) AS float8) AS seconds
    FROM pg_stat_activity AS activity
    WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND datname = current_database()
        AND pid <> pg_backend_pid() AND backend_type NOT IN ('autovacuum worker', 'parallel worker')
        AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum AS vacuum WHERE vacuum.pid = activity.pid)
    UNION ALL
    SELECT gid, 'a prepared transaction of ' || owner, 'VACUUM', format('ROLLBACK PREPARED %L', gid),
        CAST(extract(epoch FROM clock_timestamp() - prepared) AS float8)
    FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT slot_name, 'a replication slot that nobody reads', 'VACUUM',
        format('SELECT pg_drop_replication_slot(%L)', slot_name), NULL
    FROM pg_replication_slots WHERE xmin IS NOT NULL AND NOT active
) AS holders ORDER BY seconds DESC NULLS LAST LIMIT 100
"""
# A snapshot of READ COMMITTED lasts as long as a statement. The moment is one of the server's time zone, not of the
# session's, which is UTC.
_ON_MARIADB = """
SELECT CAST(trx_mysql_thread_id AS CHAR), CONCAT('a transaction of ', processes.user, '@', processes.host),
    'the purge', CONCAT('KILL ', trx_mysql_thread_id),
    CAST(TIMESTAMPDIFF(SECOND, trx_started, CONVERT_TZ(NOW(), '+00:00', 'SYSTEM')) AS DOUBLE) AS seconds
FROM information_schema.innodb_trx AS held
    JOIN information_schema.processlist AS processes ON processes.id = trx_mysql_thread_id
WHERE trx_mysql_thread_id <> CONNECTION_ID()
    AND (trx_isolation_level IN ('REPEATABLE READ', 'SERIALIZABLE') OR trx_query IS NOT NULL)
ORDER BY seconds DESC LIMIT 100
"""
_NOBODY: Any = select(literal_column("1")).where(literal_column("1 = 0"))
HOLDERS = Statement(_NOBODY, postgresql=text(_ON_POSTGRESQL), mysql=text(_ON_MARIADB))
#: Returns a row if the user may ask for them: MariaDB refuses others.
MAY_SEE_HOLDERS = Statement(
    select(literal_column("1")),
    mysql=text("SELECT 1 FROM information_schema.user_privileges WHERE privilege_type = 'PROCESS' LIMIT 1"),
)

_of_name = (pauses.c.board == p("board")) & (pauses.c.name == p("name"))
_is_limited = pauses.c.running.is_not(None)
#: Pauses a name that is neither paused nor limited; and one that is limited.
PAUSE = insert_new(pauses, ["board", "name"], parameters("board", "name"))
PAUSE_LIMITED = Statement(update(pauses).where(_of_name, _is_limited).values(running=None))
_limit = (limits.c.board == p("board")) & (limits.c.scope == literal_column("'name'")) & (limits.c.pattern == p("name"))
#: Ends the pause of a name that is not limited; and of one that is.
RESUME = Statement(delete(pauses).where(_of_name, pauses.c.running.is_(None), not_(exists().where(_limit))))
RESUME_LIMITED = Statement(
    update(pauses)
    .where(_of_name, pauses.c.running.is_(None))
    .values(running=select(limits.c.running).where(_limit).scalar_subquery())
)
#: Lets a name that is not paused have so many claims; and as many as there are jobs.
LIMIT_NAME = put(pauses, ["board", "name"], parameters("board", "name", "running"))
IS_PAUSED = Statement(select(pauses.c.name).where(_of_name, pauses.c.running.is_(None)))
UNLIMIT_NAME = Statement(delete(pauses).where(_of_name, _is_limited))
PAUSED = Statement(select(pauses.c.name, pauses.c.running).where(pauses.c.board == p("board")))
#: What is paused, with the lines that tell by whom, why and when; ``FORGET_EVENTS`` keeps these. An older jobboard
#: forgets them, and then there is none. `board + 0` is explained there.
PAUSES = Statement(
    select(pauses.c.name, journal.c.who, journal.c.reason, journal.c.at)
    .select_from(
        outerjoin(
            pauses,
            journal,
            journal.c.job.is_(None)
            & (journal.c.board + literal_column("0") == pauses.c.board)
            & (journal.c.kind == literal_column("'PAUSED'"))
            & (func.coalesce(journal.c.name, literal_column("''")) == pauses.c.name),
        )
    )
    .where(pauses.c.board == p("board"), pauses.c.running.is_(None))
    .order_by(journal.c.id)
)

PUT_ENTITY = put(
    entities,
    ["board", "kind", "name"],
    parameters("board", "kind", "name", "body", "ttl") | {"last_seen": p("now")},
)
_entity = (entities.c.board == p("board")) & (entities.c.kind == p("kind")) & (entities.c.name == p("name"))
REMOVE_ENTITY = Statement(delete(entities).where(_entity))
ENTITIES = Statement(
    select(entities.c.kind, entities.c.name, entities.c.body, entities.c.ttl, entities.c.last_seen).where(
        entities.c.board == p("board")
    )
)
FORGET_ENTITIES = Statement(
    delete(entities).where(entities.c.board == p("board"), entities.c.last_seen + entities.c.ttl <= p("before"))
)

_book = (books.c.board == p("board")) & (books.c.uuid == p("uuid"))
_entries = (book_entries.c.board == p("board")) & (book_entries.c.uuid == p("uuid"))
_entry = _entries & (book_entries.c.name == p("name"))
#: One statement, so that the book and its entries are of one moment.
READ_BOOK = Statement(
    select(books.c.version, books.c.body, book_entries.c.name, book_entries.c.body)
    .select_from(
        outerjoin(
            books,
            book_entries,
            (book_entries.c.board == books.c.board)
            & (book_entries.c.uuid == books.c.uuid)
            & (book_entries.c.name > p("after")),
        )
    )
    .where(_book)
    .order_by(book_entries.c.name)
    .limit(p("limit"))
)
BOOK_PAGE = Statement(
    select(books.c.uuid, books.c.version, books.c.body)
    .where(books.c.board == p("board"), books.c.uuid > p("after"))
    .order_by(books.c.uuid)
    .limit(p("limit"))
)
BOOK_VERSION = Statement(select(books.c.version).where(_book).with_for_update())
HAS_BOOK = Statement(select(books.c.uuid).where(_book))
ADD_BOOK = Statement(insert(books).values(parameters("board", "uuid", "body", "version")))
CHANGE_BOOK = Statement(update(books).where(_book).values(parameters("body", "version")))
DESTROY_BOOK = Statement(delete(books).where(_book))
PUT_BOOK_ENTRY = put(book_entries, ["board", "uuid", "name"], parameters("board", "uuid", "name", "body"))
REMOVE_BOOK_ENTRY = Statement(delete(book_entries).where(_entry))
REMOVE_BOOK_ENTRIES = Statement(delete(book_entries).where(_entries))
