"""How the released program sets and cancels timers while the old loops still run rows."""

from datetime import datetime

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from jobboard import JobBoard

#: No loop runs the row any more, nor does the script move it; the transaction locks it, or waits for who has.
TAKE_OVER = text(
    "UPDATE t_task SET status = 9, version = version + 1"
    " WHERE task_code = :code AND biz_key = :key AND status IN (0, 1)"
)


def upsert(board: JobBoard, session: Session, code: str, key: str, params: dict[str, object], at: datetime) -> None:
    """Set a timer, in the session's transaction."""
    session.execute(TAKE_OVER, {"code": code, "key": key})
    board.post(code, params, key=key, run_at=at, if_exists="replace", connection=session)


def cancel(board: JobBoard, engine: Engine, code: str, key: str) -> None:
    with Session(engine) as session, session.begin():
        session.execute(TAKE_OVER, {"code": code, "key": key})
    board.cancel_by_key(code, key=key)
