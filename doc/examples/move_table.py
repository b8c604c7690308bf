import json
import os
import sys
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Row, create_engine, text

import jobboard
from jobboard import JobBoard

#: Of the clocks by which ``exec_time`` was written, if the column says no zone.
ZONE = ZoneInfo("Asia/Shanghai")
WAITS, RUNS, MOVED = 0, 1, 9

OPEN_ROWS = text(
    "SELECT biz_key, task_code, params, exec_time, retry_count, max_retry FROM t_task"
    f" WHERE status IN ({WAITS}, {RUNS}) AND biz_key > :last ORDER BY biz_key LIMIT 500 FOR UPDATE"
)
MARK = text(f"UPDATE t_task SET status = {MOVED}, version = version + 1 WHERE biz_key = :biz_key")


def move_some(board: JobBoard, connection: Connection, last: str) -> str | None:
    """Move up to 500 rows behind the last key, and return the last of theirs; None if there are no more.

    A row is a job if and only if it says MOVED, since both are one transaction. One that can't be posted stays.
    """
    rows = connection.execute(OPEN_ROWS, {"last": last}).all()
    for row in rows:
        try:
            post(board, connection, row)
        except (TypeError, ValueError) as error:  # nothing was sent: no JSON, a list, a number of more than 64 bits
            sys.stderr.write(f"{row.biz_key} stays: {error}\n")
        else:
            connection.execute(MARK, {"biz_key": row.biz_key})
    return rows[-1].biz_key if rows else None


def post(board: JobBoard, connection: Connection, row: Row) -> None:
    board.post(
        row.task_code,
        json.loads(row.params or "{}"),
        key=row.biz_key,
        if_exists="replace",
        run_at=row.exec_time.replace(tzinfo=ZONE),
        # Its first attempt counts, too.
        max_attempts=max(1, row.max_retry + 1 - row.retry_count),
        connection=connection,
    )


engine = create_engine(os.environ["DATABASE_URL"])
with jobboard.open("tasks", os.environ["JOBBOARD_URI"]) as board:
    last: str | None = ""
    while last is not None:
        with engine.begin() as connection:
            last = move_some(board, connection, last)
