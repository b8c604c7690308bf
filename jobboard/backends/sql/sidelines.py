"""The statements about all that is no job: the schema's version, boards, pauses, participants, books."""

from __future__ import annotations

from sqlalchemy import delete, select, update
from sqlalchemy.dialects.sqlite import insert

from jobboard.backends.sql.schema import boards, books, entities, meta, pauses
from jobboard.backends.sql.statement import Statement, p

READ_VERSION = Statement(select(meta.c.value).where(meta.c.name == "version"))
WRITE_VERSION = Statement(insert(meta).values(name="version", value=p("version")).on_conflict_do_nothing())
CHANGE_VERSION = Statement(update(meta).where(meta.c.name == "version").values(value=p("version")))
ADD_BOARD = Statement(insert(boards).values(name=p("name")).on_conflict_do_nothing())
FIND_BOARD = Statement(select(boards.c.id).where(boards.c.name == p("name")))

PAUSE = Statement(insert(pauses).values(board=p("board"), name=p("name")).on_conflict_do_nothing())
RESUME = Statement(delete(pauses).where(pauses.c.board == p("board"), pauses.c.name == p("name")))
PAUSED = Statement(select(pauses.c.name).where(pauses.c.board == p("board")))

PUT_ENTITY = Statement(
    insert(entities)
    .values(board=p("board"), kind=p("kind"), name=p("name"), body=p("body"), ttl=p("ttl"), last_seen=p("now"))
    .on_conflict_do_update(
        index_elements=["board", "kind", "name"], set_={"body": p("body"), "ttl": p("ttl"), "last_seen": p("now")}
    )
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
READ_BOOK = Statement(select(books.c.body, books.c.version).where(_book))
WRITE_BOOK = Statement(
    insert(books)
    .values(board=p("board"), uuid=p("uuid"), body=p("body"), version=p("version"))
    .on_conflict_do_update(index_elements=["board", "uuid"], set_={"body": p("body"), "version": p("version")})
)
DESTROY_BOOK = Statement(delete(books).where(_book))
