"""An order and its job are committed together; the job's end and its outcome, too."""

import os

import sqlalchemy as sa

import jobboard

engine = sa.create_engine(os.environ["DATABASE_URL"])  # postgresql+psycopg://app@db.example.org/shop
metadata = sa.MetaData()
orders = sa.Table(
    "orders",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("state", sa.String(20), nullable=False),
)
metadata.create_all(engine)


def order(board: jobboard.JobBoard) -> None:
    """If this fails, or the process dies, there is neither an order nor a job."""
    with engine.begin() as connection:
        [number] = connection.execute(orders.insert().values(state="ordered")).inserted_primary_key
        board.post("invoice", {"order": number}, connection=connection)


def invoice(board: jobboard.JobBoard, job: jobboard.Job) -> None:
    """If this fails, the job is claimed still, and comes back when its claim expires."""
    with engine.begin() as connection:
        number = job.details["order"]
        connection.execute(orders.update().where(orders.c.number == number).values(state="invoiced"))
        board.consume(job, "alice", connection=connection)


with jobboard.open("shop", os.environ["JOBBOARD_URI"]) as board:
    order(board)
    [job] = board.claim_next("alice")
    invoice(board, job)

    # The same on a connection of the driver's own: psycopg's or PyMySQL's.
    raw = engine.raw_connection()
    raw.cursor().execute("INSERT INTO orders (state) VALUES ('ordered')")
    board.post("invoice", connection=raw.driver_connection)
    raw.rollback()
    raw.close()
    assert board.job_count == 0
