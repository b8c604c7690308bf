"""Says by two round trips how long to wait on MariaDB and MySQL: one for the look, and one for its end."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from jobboard.backends.sql.floors import Look
from jobboard.backends.sql.mysql.driver import BEGIN_READ, due_floor, least_due, least_due_mark
from jobboard.backends.sql.mysql.fast_path import MAX_NAMES, asked_by, first_of, floors_of, transaction_on
from jobboard.backends.sql.mysql.fast_statements import FORGET_FIRST, NOW_AND_MARK, SET_STATUS
from jobboard.backends.sql.mysql.transaction import MysqlTransaction
from jobboard.backends.sql.server_errors import not_empty
from jobboard.backends.sql.server_reading import Found, ServerReading
from jobboard.backends.sql.statement import Statement

_STATUS = Statement(
    text(f"""
SELECT @jobboard_now, @jobboard_mark, {least_due(":board", due_floor(":mark", ":due_floor"))},
    {least_due_mark(":board")}, EXISTS (SELECT 1 FROM jobboard_pauses WHERE board = :board), @jobboard_is_blocked
""")  # nosec B608 # made of this module's constants only; values are bound parameters
)
_BEGIN = (*(Statement(text(sql)) for sql in BEGIN_READ), NOW_AND_MARK, SET_STATUS, _STATUS)
_PLACE = Statement(text("SELECT @jobboard_place"))


class MysqlReading(ServerReading):
    def ready_in(self, names: frozenset[str] | None) -> float | None:
        if names is not None and len(names) > MAX_NAMES:
            return self.ready_in_by_long_path(names)
        return super().ready_in(names)

    def _look(self, look: Look) -> Found:
        def begin(cursor: Any) -> MysqlTransaction:
            transaction = transaction_on(self._transactions, cursor)
            transaction.begin_with_next(*_BEGIN, **asked_by(look))
            return transaction

        asked = []
        for name, floor in floors_of(look).items():
            given = {"name": name, "floor": floor}
            asked += [(statement, given) for statement in (FORGET_FIRST, first_of(name, floor), _PLACE)]
        with self._transactions.transaction(begin, lambda cursor, _: cursor.execute("COMMIT")) as transaction:
            rows = transaction.rows_of_all(asked)
        (now, mark, *moments, is_barred, is_any_blocked), *places = not_empty(rows, self._transactions.driver.where)
        due_at = min((float(moment) for moment in moments if moment is not None), default=None)
        is_any_ready = any(place is not None for (place,) in places)
        return Found(float(now), mark, due_at, bool(is_barred), bool(is_any_blocked), is_any_ready)
