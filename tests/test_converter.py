"""Types that msgpack does not carry: on the board as plain data, and what they were for who has a converter."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath, PurePosixPath
from typing import Any

import pytest
from helpers import converted
from helpers.conducting import conducting
from helpers.converted import Money

from jobboard import Conductor, Converter, Handlers, InvalidPosting, JobBoard, JobFailed, LogBook, fetch
from jobboard.codec import decode, encode

ID = uuid.UUID(int=7)
VALUES = {
    "id": ID, "day": date(2030, 1, 2), "at": time(3, 4, 5), "span": timedelta(seconds=1.5), "sum": Decimal("1.10"),
    "moment": datetime(2030, 1, 2, tzinfo=UTC), "deep": [{"ids": [ID, ID]}], "raw": b"\xc4\xff",
}  # fmt: skip


@pytest.fixture
def uri() -> str:
    return f"memory://{uuid.uuid4().hex}"


@pytest.fixture
def board(uri: str) -> Iterator[JobBoard]:
    with fetch("work", uri, converter=converted.converter) as board:
        yield board


@pytest.fixture
def plain(uri: str) -> Iterator[JobBoard]:
    """A client of the same board without a converter."""
    with fetch("work", uri) as board:
        yield board


class TestBoard:
    def test_values_arrive_as_they_were_sent(self, board: JobBoard) -> None:
        posted = board.post("work", details=VALUES)
        (job,) = board.claim_next("alice")
        board.checkpoint(job, "alice", [ID])
        board.consume(job, "alice", {"day": date(2030, 1, 2)})
        assert posted.details == job.details == board.get(job.uuid).details == VALUES
        assert (posted.checkpoint, posted.get_result(0)) == ([ID], {"day": date(2030, 1, 2)})

    def test_books_and_entities_carry_them_too(self, board: JobBoard) -> None:
        book = LogBook("moves")
        book.append(id=ID)
        board.save_book(book)
        assert [entry["id"] for entry in board.load_book(book.uuid)] == [ID]

    def test_who_has_no_converter_sees_plain_data_and_harms_nothing(self, board: JobBoard, plain: JobBoard) -> None:
        job = board.post("work", details={"id": ID, "price": Money(Decimal(3), "EUR")})
        (seen,) = plain.iterjobs()
        assert seen.details == {
            "id": {"$type": "uuid", "$value": str(ID)},
            "price": {"$type": "money", "$value": [{"$type": "decimal", "$value": "3"}, "EUR"]},
        }
        assert plain.post("again", details=seen.details).uuid != job.uuid
        assert [each.details for each in board.iterjobs()] == [job.details] * 2

    @pytest.mark.parametrize(
        "details",
        [
            {"$type": "uuid", "$value": "no uuid"}, {"$type": "uuid", "$value": 7}, {"$type": "unknown", "$value": 1},
            {"$type": ["uuid"], "$value": 1}, {"$type": "uuid"}, {"$type": "uuid", "$value": str(ID), "more": 1},
            {"$type": "money", "$value": "SECRET"},
        ],
    )  # fmt: skip
    def test_what_no_function_makes_a_value_of_stays_as_it_is(
        self, board: JobBoard, plain: JobBoard, details: dict[str, Any]
    ) -> None:
        plain.post("work", details={"it": details})
        assert [job.details for job in board.claim_next("alice")] == [{"it": details}]

    def test_details_stay_a_dict_whatever_is_in_it(self, board: JobBoard, plain: JobBoard) -> None:
        details = {"$type": "uuid", "$value": str(ID)}
        for poster in (board, plain):
            assert poster.post("work", details=details).details == details
        assert [job.details for job in board.claim_next("alice", limit=2)] == [details] * 2

    @pytest.mark.parametrize(
        ("details", "message"),
        [
            ({"a": [ID, {"b": {1}}]}, r"details\.a\[1\]\.b can't be stored: set is not supported"),
            ({"a": Money({1}, "EUR")}, r"details\.a\.\$value\[0\] can't be stored: set is not supported"),  # type: ignore[arg-type]
            ({"a": datetime(2030, 1, 2)}, r"details\.a can't be stored: a naive datetime names no moment"),
            ({ID: 1}, r"details can't be stored: the key .* must be a str"),
        ],
    )
    def test_what_cannot_be_stored_is_named(self, board: JobBoard, details: Any, message: str) -> None:
        with pytest.raises(InvalidPosting, match=message):
            board.post("work", details=details)

    def test_only_a_converter_is_one(self, uri: str) -> None:
        for wrong in ("json", print):
            with pytest.raises(ValueError, match="must be a Converter"):
                fetch("work", uri, converter=wrong)


class TestConverter:
    def test_subclasses_are_carried_as_their_class(self) -> None:
        converter = Converter().add("path", PurePath, str, PurePath)
        data = encode("value", PurePosixPath("/a"), converter=converter).data
        assert decode(data, converter=converter) == PurePath("/a")

    def test_an_encoder_that_fails_names_the_path_and_not_the_value(self) -> None:
        converter = Converter().add("path", PurePath, lambda path: int(str(path)), PurePath)
        with pytest.raises(InvalidPosting) as caught:
            encode("value", [PurePath("SECRET")], converter=converter)
        assert str(caught.value) == "value[0] can't be stored: its converter 'path' raised ValueError"

    def test_an_encoder_without_an_end_is_refused(self) -> None:
        converter = Converter().add("path", PurePath, lambda path: [path], PurePath)
        with pytest.raises(InvalidPosting, match="nested deeper"):
            encode("value", PurePath("a"), converter=converter)

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (("uuid", Money, str, str), ValueError), (("id", uuid.UUID, str, str), ValueError),
            (("text", type("Text", (str,), {}), str, str), ValueError), (("moment", datetime, str, str), ValueError),
            (("", Money, str, str), ValueError), (("money", "Money", str, str), TypeError),
            (("money", Money, str, None), TypeError),
        ],
    )  # fmt: skip
    def test_a_bad_form_is_refused(self, arguments: Any, error: type[Exception]) -> None:
        with pytest.raises(error):
            Converter().add(*arguments)

    def test_it_can_be_pickled(self) -> None:
        again = pickle.loads(pickle.dumps(converted.converter))
        money = Money(Decimal(1), "EUR")
        assert again.from_plain({"$type": "money", "$value": [Decimal(1), "EUR"]}) == money
        assert again.to_plain(money) == converted.converter.to_plain(money)


@pytest.mark.parametrize("executor", ["thread", "process", "asyncio"])
class TestConducted:
    def test_handlers_get_and_return_them(self, board: JobBoard, executor: str) -> None:
        price = Money(Decimal("1.5"), "EUR")
        with conducting(board, converted.handlers, executor):
            doubled = board.post("double", details={"price": price, "day": date(2030, 1, 2)})
            later = board.post("later", details={"id": ID})
            typed = board.post("typed", details={"id": str(ID), "price": price})
            strange = board.post("strange")
            assert doubled.get_result(20) == {"price": Money(Decimal("3.0"), "EUR"), "day": date(2030, 1, 2)}
            assert doubled.record.checkpoint == [price]
            assert later.get_result(20) == ID
            assert typed.get_result(20) == [ID, price]
            with pytest.raises(JobFailed, match=r"result\.part can't be stored: set is not supported"):
                strange.get_result(20)


def test_a_converter_that_workers_cannot_import_is_refused_at_the_start(uri: str) -> None:
    converter = Converter().add("path", PurePath, lambda path: f"{path}", PurePath)
    handlers = Handlers()
    handlers.add("work", converted.double)
    with fetch("work", uri, converter=converter) as board:
        with pytest.raises(ValueError, match="the board's converter can't run in a process"):
            Conductor("test", board, handlers, executor="process").start()
        with conducting(board, handlers, "thread"):
            pass
