"""Logbooks on Redis."""

from __future__ import annotations

from jobboard.backends.book_rows import BookPage, BookPart, BookRow, BookSave, SaveOutcome
from jobboard.backends.redis.client import RedisClient
from jobboard.backends.redis.codec import fence_parts, pack, text_of
from jobboard.backends.redis.connection import Argument
from jobboard.backends.roles import BookStore

_OUTCOMES = {b"OK": SaveOutcome.SAVED, b"STALE": SaveOutcome.STALE, b"LOST": SaveOutcome.LOST}


class Books(BookStore):
    """The logbooks of one board; each method is one script."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    def save(self, step: BookSave) -> SaveOutcome:
        fence = b"" if step.fence is None else pack(fence_parts(step.fence))
        written: list[Argument] = []
        removed: list[Argument] = []
        for name, data in step.entries.items():
            if data is None:
                removed.append(name)
            else:
                written += [name, data]
        head = (step.uuid, step.body, step.version, step.after or "", fence)
        return _OUTCOMES[self._client.change("save_book", *head, str(len(written) // 2), *written, *removed)[0]]

    def load(self, uuid: str, cursor: str | None, size: int) -> BookPart | None:
        status, *book = self._client.read("load_book", uuid, cursor or "", str(size))
        if status == b"MISSING":
            return None
        body, version, *found = book
        entries = [(text_of(name), data) for name, data in zip(found[::2], found[1::2], strict=True)]
        return BookPart(
            BookRow(uuid, text_of(version), body), entries, entries[-1][0] if len(entries) == size else None
        )

    def page(self, cursor: object | None, size: int) -> BookPage:
        _, after, *found = self._client.read("page_books", str(cursor or 0), str(size))
        rows = [
            BookRow(text_of(uuid), text_of(version), body)
            for uuid, version, body in zip(found[::3], found[1::3], found[2::3], strict=True)
        ]
        return BookPage(rows, None if after == b"0" else text_of(after))

    def destroy(self, uuid: str) -> bool:
        return bool(self._client.change("destroy_book", uuid)[0] == b"OK")
