"""What a signal's handler raises while a request is written ends that request, and not the process.

hiredis 3.5.0 ends it (a segmentation fault) if that happens while it writes a number.
"""

from __future__ import annotations

import pytest
from harnesses.working import work
from servers.redis_servers import RedisServer

from jobboard import Every, LogBook, Schedule, backend
from jobboard.backends.redis import connection
from jobboard.backends.redis.connection import Command


def test_no_number_is_left_to_hiredis(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = connection._pack_command

    def checked(command: Command) -> bytes:
        assert all(isinstance(part, (str, bytes)) for part in command), command
        packed: bytes = pack(command)
        return packed

    monkeypatch.setattr(connection, "_pack_command", checked)
    with RedisServer({"appendonly": "yes", "appendfsync": "always"}) as server:
        for durability in ("none", "aof"):
            with backend("packed", f"{server.uri}?durability={durability}") as board:
                work(board)
                board.save_book(book := LogBook("journal"))
                assert board.load_book(book.uuid).name == "journal"
                assert len(list(board.books())) > 0
                board.schedules.add(Schedule(durability, Every(hours=1), "resize"))
                assert [schedule.id for schedule in board.schedules]
                assert board.audit(repair=True) == []
