"""A statement that a connection executes again and again, with less around it than a cursor of psycopg has.

Why not a cursor: it makes some twenty objects anew for each execution. By a cursor a post takes 147 us of the client's
CPU, and by these parts of psycopg's own 96 us. A statement is prepared when psycopg would prepare it. Tested with
psycopg 3.3.9.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

from jobboard.backends.sql.rows import Row

_PARAMETER = re.compile(r"%\((\w+)\)s")
_ANSWERS = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)


class PreparedStatement:
    """A text on one connection, outside a transaction; of one thread at a time.

    :param text: with parameters as ``%(name)s``.
    """

    def __init__(self, connection: psycopg.Connection[Any], text: str) -> None:
        self._connection = connection
        self._parameters = list(dict.fromkeys(_PARAMETER.findall(text)))
        numbered = _PARAMETER.sub(lambda found: f"${self._parameters.index(found[1]) + 1}", text)
        self._text = numbered.replace("%%", "%").encode()
        self._formats = [PyFormat.AUTO] * len(self._parameters)
        self._transformer = Transformer(connection)
        #: By the types of the parameters: how often it was sent as a text, and then its name in the server.
        self._sent: Counter[tuple[int, ...]] = Counter()
        self._names: dict[tuple[int, ...], bytes] = {}

    def rows(self, parameters: Mapping[str, Any]) -> list[Row]:
        try:
            return self._execute(parameters)
        except InvalidSqlStatementName:
            # psycopg ends all statements of a connection after a rollback; nothing was executed.
            self._names.clear()
            return self._execute(parameters)

    def _execute(self, parameters: Mapping[str, Any]) -> list[Row]:
        transformer, pgconn = self._transformer, self._connection.pgconn
        values = transformer.dump_sequence(list(map(parameters.__getitem__, self._parameters)), self._formats)
        types, formats = transformer.types or (), transformer.formats
        name = self._names.get(types) or self._prepare_when_due(types)
        # Numbers and bytes as they are cost both sides less than as text.
        if name is None:
            pgconn.send_query_params(self._text, values, types, formats, Format.BINARY)
        else:
            pgconn.send_query_prepared(name, values, formats, Format.BINARY)
        result = self._result()
        transformer.set_pgresult(result)
        try:
            return transformer.load_rows(0, result.ntuples, tuple)
        finally:
            transformer.set_pgresult(None)

    def _prepare_when_due(self, types: tuple[int, ...]) -> bytes | None:
        threshold = self._connection.prepare_threshold
        if threshold is None or self._sent[types] < threshold:
            self._sent[types] += 1
            return None
        name = f"jobboard_{uuid.uuid4().hex}".encode()
        self._connection.pgconn.send_prepare(name, self._text, types)
        self._result()
        self._names[types] = name
        return name

    def _result(self) -> PGresult:
        results: list[PGresult] = self._connection.wait(execute(self._connection.pgconn))
        for result in results:
            if result.status not in _ANSWERS:
                raise error_from_result(result, self._transformer.encoding)
        if not results:
            raise psycopg.InternalError("the server gave no result")
        return results[-1]
