"""Posts and consumes in transactions of Django's, and prints what came of it: ``URI DRIVER``."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any

from sqlalchemy.engine import make_url

import jobboard


def settings_of(uri: str, driver: str) -> dict[str, Any]:
    url = make_url(uri)
    if driver == "PyMySQL":
        import pymysql

        # Django asks for a version of mysqlclient.
        pymysql.version_info = (2, 2, 1, "final", 0)  # type: ignore[assignment]
        pymysql.install_as_MySQLdb()
    engine = {"sqlite3": "sqlite3", "psycopg": "postgresql"}.get(driver, "mysql")
    return {
        "ENGINE": f"django.db.backends.{engine}",
        "NAME": url.database,
        "HOST": url.host or "",
        "PORT": url.port or "",
        "USER": url.username or "",
    }


class Undone(Exception):
    pass


def main(uri: str, driver: str) -> None:
    from django.conf import settings

    settings.configure(DATABASES={"default": settings_of(uri, driver)}, USE_TZ=True)
    from django.db import connection, connections, transaction

    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS orders")
        cursor.execute("CREATE TABLE orders (name VARCHAR(40))")

    def order(name: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO orders VALUES (%s)", [name])

    with jobboard.backend(f"of Django by {driver}", uri) as board:
        told: dict[str, Any] = {"refused": None}
        try:
            board.post("outside", connection=connection)
        except ValueError as error:
            told["refused"] = str(error)
        for one, name in ((connection, "by connection"), (connections["default"], "by alias")):
            with suppress(Undone), transaction.atomic():
                order("undone")
                board.post("undone", connection=one)
                raise Undone
            with transaction.atomic():
                order(name)
                board.post(name, connection=one)
                with suppress(Undone), transaction.atomic():
                    board.post("undone in a part", connection=one)
                    raise Undone
        told["jobs"] = [job.name for job in board.iterjobs()]
        [job] = board.claim_next("alice")
        with transaction.atomic():
            board.consume(job, "alice", connection=connection)
        told["state"] = job.state.name
        with connection.cursor() as cursor:
            cursor.execute("SELECT name FROM orders")
            told["rows"] = [name for (name,) in cursor.fetchall()]
    connection.close()
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
