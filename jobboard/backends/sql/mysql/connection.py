"""Connections of PyMySQL's that keep to the time limit of the present call, and that read rows faster.

PyMySQL parses the description of each column of each result anew, and reads each value of a row by several calls. For
one job, both take longer than all else that a claim does here. This builds on the insides of PyMySQL 1.2.4, the oldest
version that is supported; ``functional_tests/sql/test_mariadb_requests.py`` compares the rows with PyMySQL's.
"""

from __future__ import annotations

import functools
import math
import ssl
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pymysql
from pymysql.connections import Connection, MySQLResult
from pymysql.constants import CLIENT, CR
from pymysql.protocol import NULL_COLUMN, FieldDescriptorPacket, MysqlPacket

from jobboard.backends.sql.mysql.errors import NOT_READY, code_of
from jobboard.backends.sql.mysql.galera import check_ready
from jobboard.backends.timelimit import seconds_left, time_limit

Connect = Callable[[float], Any]

#: Parses the description of a column; keeps more of them than the statements of this package have.
_described = functools.lru_cache(maxsize=2000)(FieldDescriptorPacket)


class FastResult(MySQLResult):
    """A result whose rows are read without a call for each value."""

    #: For each column the encoding, and what makes a value of the text.
    converters: Sequence[tuple[str | None, Callable[[Any], Any] | None]]

    def _read_row_from_packet(self, packet: Any) -> tuple[Any, ...]:
        data, at = packet._data, 0
        row: list[Any] = []
        for encoding, convert in self.converters:
            length = data[at]
            at += 1
            if length == NULL_COLUMN:
                row.append(None)
                continue
            if length > NULL_COLUMN:
                packet._position = at - 1
                length = packet.read_length_encoded_integer()
                at = packet._position
            value = data[at : at + length]
            at += length
            if encoding is not None:
                value = value.decode(encoding)
            row.append(value if convert is None else convert(value))
        return tuple(row)


def _unverified_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class FastConnection(Connection):
    """If no option asks for TLS, PyMySQL uses TLS where the server has it, and verifies no certificate.

    The context for that is made here, once. PyMySQL reads the system's authorities for each, which takes longer than
    the rest of connecting; and a child that is forked while a thread makes one would wait for OpenSSL's lock for ever.
    """

    _preferred: ClassVar = _unverified_context()
    _reply_timeout: float

    @property
    def _read_timeout(self) -> float:
        """The timeout of each part of a reply; in whole seconds, so that the socket's timeout seldom changes."""
        left = seconds_left(self._reply_timeout)
        return math.ceil(left) if left > 1 else left

    @_read_timeout.setter
    def _read_timeout(self, seconds: float) -> None:
        self._reply_timeout = seconds

    _write_timeout = _read_timeout

    def _create_ssl_ctx(self, sslp: Any) -> Any:
        return sslp if isinstance(sslp, ssl.SSLContext) else self._preferred

    def _read_packet(self, packet_type: Any = MysqlPacket) -> Any:
        kind = _described if packet_type is FieldDescriptorPacket else packet_type
        try:
            return super()._read_packet(kind)  # type: ignore[no-untyped-call]
        except pymysql.Error as error:
            if code_of(error) == NOT_READY:
                # Another node may be ready, to which the next connection leads.
                self._force_close()  # type: ignore[attr-defined]
            raise
        except (ValueError, IndexError, AssertionError, struct.error) as error:
            # A Galera node was seen to garble the reply of a transaction that it undid.
            self._force_close()  # type: ignore[attr-defined]
            raise pymysql.OperationalError(CR.CR_SERVER_LOST, f"a reply can't be decoded: {error}") from error

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        if unbuffered:
            return super()._read_query_result(unbuffered)  # type: ignore[misc]
        self._result = None
        result = FastResult(self)
        result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return result.affected_rows


def connector(nodes: Sequence[Mapping[str, Any]], reply_timeout: float) -> Connect:
    """Return what connects to the first of these nodes that takes the connection.

    :param nodes: PyMySQL's parameters of each.
    :param reply_timeout: seconds after which a server that does not reply is given up.
    """

    def connect(timeout: float) -> Any:
        deadline = time.monotonic() + timeout
        for others, parameters in zip(reversed(range(len(nodes))), nodes, strict=True):
            # Those behind it get their shares of the time, also if this one is silent.
            share = (deadline - time.monotonic()) / (others + 1)
            try:
                with time_limit(share):
                    return _connected(parameters, seconds_left(share), reply_timeout, is_one_of_several=len(nodes) > 1)
            except (pymysql.Error, OSError):
                if not others:
                    raise
        raise AssertionError("no node")

    return connect


def _connected(
    parameters: Mapping[str, Any], timeout: float, reply_timeout: float, *, is_one_of_several: bool
) -> FastConnection:
    connection = FastConnection(
        **parameters,
        connect_timeout=timeout,
        read_timeout=reply_timeout,
        write_timeout=reply_timeout,
        charset="utf8mb4",
        client_flag=CLIENT.MULTI_STATEMENTS,
    )
    if is_one_of_several:
        try:
            check_ready(connection)
        except BaseException:
            connection.close()
            raise
    return connection
