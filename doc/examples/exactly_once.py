"""A handler moves money and ends its job in one transaction."""

import os
from dataclasses import dataclass

import sqlalchemy as sa

import jobboard

engine = sa.create_engine(os.environ["DATABASE_URL"])  # postgresql+psycopg://app@db.example.org/bank
metadata = sa.MetaData()
accounts = sa.Table(
    "accounts", metadata, sa.Column("number", sa.Integer, primary_key=True), sa.Column("amount", sa.Integer)
)
handlers = jobboard.Handlers()


@dataclass
class Transfer:
    giver: int
    taker: int
    amount: int


@handlers.handler(max_attempts=5)
def transfer(job: jobboard.RunningJob, money: Transfer) -> None:
    with engine.begin() as connection:
        for number, sign in ((money.giver, -1), (money.taker, 1)):
            change = accounts.c.amount + sign * money.amount
            connection.execute(accounts.update().where(accounts.c.number == number).values(amount=change))
        job.complete("transferred", connection=connection)


metadata.create_all(engine)
with engine.begin() as connection:
    alice, bob = (connection.execute(accounts.insert().values(amount=n)).inserted_primary_key[0] for n in (10, 0))

with jobboard.open("bank", os.environ["JOBBOARD_URI"]) as board, jobboard.Conductor("bank", board, handlers):
    job = transfer.post(board, Transfer(alice, bob, 7))
    assert job.wait(timeout=60)
    assert job.result == "transferred"
