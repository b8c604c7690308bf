"""An order and its job are one transaction. ``flask --app flask_orders run`` serves it."""

import os
import uuid
from dataclasses import dataclass

from flask import Flask, abort, request
from sqlalchemy import String, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import jobboard

engine = create_engine(os.environ["DATABASE_URL"])
board = jobboard.fetch("orders", os.environ["DATABASE_URL"])
handlers = jobboard.Handlers()
app = Flask(__name__)
app.before_request(board.connect)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    item: Mapped[str] = mapped_column(String(200))
    invoice: Mapped[str | None] = mapped_column(String(200))


@app.cli.command("create-tables")
def create_tables():
    """Create the tables of the application."""
    Base.metadata.create_all(engine)


@app.post("/orders")
def place_order():
    with Session(engine) as session, session.begin():
        order = Order(id=uuid.uuid4(), item=request.json["item"])
        session.add(order)
        invoice.post(board, Invoice(str(order.id)), uuid=order.id, connection=session)
        return {"id": order.id}, 202


@app.get("/orders/<uuid:id>")
def show_order(id):
    with Session(engine) as session:
        order = session.get(Order, id)
    if order is None:
        abort(404)
    if order.invoice is not None:  # the outcome is the order's own, and stays when the job's record is gone
        return {"state": "invoiced", "invoice": order.invoice}
    try:
        record = board.get(id).record
    except jobboard.NotFound:  # neither an invoice nor a job: somebody cancelled it
        return {"state": "cancelled"}
    return {"state": record.state.lower(), "attempts": record.attempts, "reason": record.reason}


@dataclass
class Invoice:
    order: str


@handlers.handler
def invoice(wanted: Invoice):
    with Session(engine) as session, session.begin():
        order = session.get(Order, uuid.UUID(wanted.order))
        order.invoice = f"INV-{order.id}"
