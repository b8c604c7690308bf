import json
import os
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, create_engine, text

import jobboard
from jobboard import JobBoard

#: Of the clocks by which ``exec_time`` was written, if the column says no zone.
ZONE = ZoneInfo("Asia/Shanghai")
WAITS, RUNS, MOVED = 0, 1, 9

OPEN_ROWS = text(
    "SELECT biz_key, task_code, params, exec_time, retry_count, max_retry FROM t_task"
    f" WHERE status IN ({WAITS}, {RUNS}) ORDER BY exec_time LIMIT 500 FOR UPDATE"
)
MARK = text(f"UPDATE t_task SET status = {MOVED}, version = version + 1 WHERE biz_key = :biz_key")


def move_some(board: JobBoard, connection: Connection) -> int:
    """A row is a job if and only if it says MOVED, since both are one transaction."""
    rows = connection.execute(OPEN_ROWS).all()
    for row in rows:
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
        connection.execute(MARK, {"biz_key": row.biz_key})
    return len(rows)


engine = create_engine(os.environ["DATABASE_URL"])
with jobboard.open("tasks", os.environ["JOBBOARD_URI"]) as board:
    moved = 1
    while moved:
        with engine.begin() as connection:
            moved = move_some(board, connection)
