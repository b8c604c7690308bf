"""Handlers that get their details as a type, and those that can't be called at all."""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from helpers import typed
from helpers.conducting import conducting
from helpers.typed import Address, Line, Order, Person, Size

import jobboard
from jobboard import Handlers, InvalidDetails, JobBoard, JobFailed, fetch
from jobboard.conductor.calling import is_async
from jobboard.conductor.typed_details import fit_details

if TYPE_CHECKING:
    from jobboard import RunningJob

GOOD = {"number": 7, "lines": [{"article": "pen", "price": "1.50"}, {"article": "ink", "price": 3, "count": 2}]}
ID = "12345678-1234-5678-1234-567812345678"


@pytest.fixture(params=["thread", "process", "asyncio"])
def board(request: pytest.FixtureRequest) -> Iterator[JobBoard]:
    """A board with a conductor."""
    with fetch("work", f"memory://{uuid.uuid4().hex}") as board, conducting(board, typed.handlers, request.param):
        yield board


class TestConducted:
    def test_details_arrive_as_the_type_and_misfits_are_set_aside(
        self, board: JobBoard, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        good = [board.post(name, details=GOOD) for name in ("only", "both", "later")]
        good.append(board.post("address", details={"street": "High Street"}))
        good.append(board.post("person", details={"name": "Ann", "born": "1990-01-02"}))
        bad = [
            board.post("both", details={**GOOD, "number": "SECRET"}),
            board.post("later", details={**GOOD, "lines": [{"article": "SECRET", "price": "SECRET"}]}),
            board.post("address", details={"number": 1}),
            board.post("person", details={"name": "secret", "born": "1990-01-02"}),
        ]
        assert [job.get_result(20) for job in good] == [[7, ["1.50", "3"]], ["both", 7], 7, "High Street", "1990-01-02"]
        told = []
        for job in bad:
            with pytest.raises(JobFailed) as caught:
                job.get_result(20)
            told += [caught.value.reason, caught.value.last_error]
            assert job.record.attempts == 1
        assert told[::2] == [
            "the details don't fit Order: details.number must be int, not str",
            "the details don't fit Order: details.lines[0].price is no Decimal",
            "the details don't fit Address: details.street is missing",
            "the details don't fit Person: details.name (value_error)",
        ]
        assert "secret" not in "\n".join([*map(str, told), caplog.text]).lower()


class TestFitting:
    def test_everything_is_converted(self) -> None:
        moment = datetime(2030, 1, 2, tzinfo=UTC)
        details = {
            **GOOD, "id": ID, "due": "2030-01-02", "at": moment, "size": "large", "way": "air", "unknown": 1,
            "weights": {"a": 1}, "tags": ["x", "x"], "corner": [1, 2], "note": 3, "anything": {"a": [1]},
            "parent": GOOD,
        }  # fmt: skip
        lines = [Line("pen", Decimal("1.50")), Line("ink", Decimal(3), 2)]
        assert fit_details(Order, details) == Order(
            7, lines, uuid.UUID(ID), date(2030, 1, 2), moment, Size.LARGE, "air", {"a": 1.0}, frozenset("x"), (1, 2), 3,
            {"a": [1]}, Order(7, lines),
        )  # fmt: skip
        assert fit_details(Order, {**GOOD, "at": moment.isoformat()}).at == moment

    def test_what_is_converted_already_stays(self) -> None:
        one = uuid.uuid4()
        line = Line("pen", Decimal(1))
        order = fit_details(Order, {"number": 1, "lines": [line], "id": one, "due": date(2030, 1, 2)})
        assert order == Order(1, [line], one, date(2030, 1, 2))

    @pytest.mark.parametrize(
        ("change", "path", "fault"),
        [
            ({"number": True}, "details.number", "must be int, not bool"),
            ({"number": 1.0}, "details.number", "must be int, not float"),
            ({"lines": {}}, "details.lines", "must be list, not dict"),
            ({"lines": [7]}, "details.lines[0]", "must be dict, not int"),
            ({"lines": [{"article": "x"}]}, "details.lines[0].price", "is missing"),
            (
                {"lines": [{"article": "x", "price": 1, "count": 0}]}, "details.lines[0]",
                "was refused by Line with ValueError",
            ),
            ({"id": "SECRET"}, "details.id", "is no UUID"),
            ({"id": 5}, "details.id", "must be UUID, not int"),
            ({"due": datetime(2030, 1, 2, tzinfo=UTC)}, "details.due", "must be date, not datetime"),
            ({"at": "2030-01-02T03:04"}, "details.at", "is no datetime"),
            ({"size": "SECRET"}, "details.size", "is no Size"),
            ({"way": "SECRET"}, "details.way", "must be one of 'air', 'sea'"),
            ({"weights": {"SECRET": "x"}}, "details.weights.*", "must be float, not str"),
            ({"tags": [[]]}, "details.tags[0]", "must be str, not list"),
            ({"corner": [1]}, "details.corner", "must have 2 items, not 1"),
            ({"note": None}, "details.note", "fits none of the types that it may have"),
            ({"parent": {"number": 1}}, "details.parent.lines", "is missing"),
        ],
    )  # fmt: skip
    def test_a_misfit_names_its_field_and_not_its_value(self, change: dict[str, Any], path: str, fault: str) -> None:
        with pytest.raises(InvalidDetails) as caught:
            fit_details(Order, {**GOOD, **change})
        assert (str(caught.value), caught.value.path) == (f"the details don't fit Order: {path} {fault}", path)

    def test_a_model_names_its_fields_by_their_aliases_and_no_keys_of_dicts(self) -> None:
        details = {"name": "Ann", "born": "SECRET", "e-mail": 5, "homes": {"SECRET": {"street": 7}}}
        with pytest.raises(InvalidDetails) as caught:
            fit_details(Person, details)
        assert str(caught.value) == (
            "the details don't fit Person: details.born (date_from_datetime_parsing), details.e-mail (string_type), "
            "details.homes.*.street (string_type)"
        )

    def test_unions_in_each_other_take_no_longer_than_the_details_are(self) -> None:
        """Trying each of them in both ways would take 2 to the power of 60 steps."""
        riddle: dict[str, Any] = {"next": None, "end": "wrong"}
        for _ in range(60):
            riddle = {"next": riddle, "end": 1}
        with pytest.raises(InvalidDetails, match=r"details\.next fits none"):
            fit_details(Left, riddle)
        riddle["next"]["end"] = 0
        riddle["next"]["next"] = {"next": None, "end": 1}
        assert fit_details(Left, riddle).next.end == 0


@dataclass
class Left:
    next: Left | Right | None
    end: int


@dataclass
class Right:
    next: Left | Right | None
    end: int


@dataclass
class Unresolved:
    inner: dict[str, Unknown]  # type: ignore[name-defined]  # noqa: F821


def nothing() -> None: ...
def two(job: Any, size: int) -> None: ...
def keyword(job: Any, *, size: int) -> None: ...
def unresolved(job: Any, it: Unresolved) -> None: ...
def seen_by_checkers_only(job: RunningJob) -> None: ...
def optional(job: Any, size: int = 1) -> None: ...
def anything(*args: Any) -> None: ...
def address_and_more(job: Any, to: Address, size: int) -> None: ...


class Callee:
    def __call__(self, job: Any, to: Address) -> tuple[Any, Address]:
        return job, to

    def method(self, to: Address) -> Address:
        return to


@functools.wraps(two)
def injecting(job: Any) -> None:
    return two(job, 1)


@functools.wraps(dict)
def like_a_class_in_c(job: Any) -> None: ...


def a_number(x: int) -> None: ...
def a_text_or_none(text: str | None = None) -> None: ...
def a_dict(details: dict[str, Any]) -> None: ...
def a_number_and_the_details(x: int, to: Address) -> None: ...
def a_member(size: Size) -> None: ...


class Named(Protocol):
    name: str


def whatever_has_a_name(job: Named) -> None: ...
def anything_at_all(job: object) -> None: ...
def a_job_or_details(job: jobboard.RunningJob | dict[str, Any]) -> None: ...


@functools.wraps(a_number)
def giving_a_number(job: Any) -> None:
    return a_number(job.details["x"])


def hidden(job: Any, hidden: RunningJob) -> None: ...


class TestRegistering:
    @pytest.mark.parametrize(
        ("function", "why"),
        [
            (nothing, "too many positional arguments"), (two, "missing a required argument: 'size'"),
            (keyword, "missing a required argument: 'size'"), (address_and_more, "missing a required argument"),
            (unresolved, "name 'Unknown' is not defined"), (lambda: None, "too many positional arguments"),
            (hidden, "known at run time"), (functools.partial(two, 1, 2), "too many positional arguments"),
            (a_number, "it asks for int"), (a_text_or_none, r"it asks for str \| None"), (a_dict, "it asks for dict"),
            (a_number_and_the_details, "it asks for int"), (a_member, "it asks for Size"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_called_with_one_job_is_refused(self, function: Callable[..., Any], why: str) -> None:
        handlers = Handlers()
        with pytest.raises(TypeError, match=why) as caught:
            handlers.add("work", function)
        assert "'work'" in str(caught.value)
        assert getattr(function, "__qualname__", "functools.partial") in str(caught.value)
        assert len(handlers) == 0

    @pytest.mark.parametrize(
        "function",
        [
            seen_by_checkers_only,
            optional,
            anything,
            injecting,
            print,
            dict,
            like_a_class_in_c,
            whatever_has_a_name,
            anything_at_all,
            a_job_or_details,
            giving_a_number,
            functools.partial(two, size=1),
        ],
    )
    def test_what_can_be_is_called_as_it_is(self, function: Callable[..., Any]) -> None:
        handlers = Handlers()
        handlers.add("work", function)
        assert handlers["work"].call.call is function

    def test_methods_and_objects_get_their_details_too(self) -> None:
        class Job:
            name, uuid, attempts = "object", "u", 1
            details = {"street": "High Street", "unknown": 1}
            _steps = None

        handlers, job = Handlers(), Job()
        handlers.add("object", Callee())
        handlers.add("method", Callee().method)
        handlers.add("partial", functools.partial(Callee(), to={"street": "Low Street"}))
        handlers.add("bound", functools.partial(Callee.method, Callee()))
        assert handlers["object"].call(job) == (job, {"street": "High Street"})
        assert handlers["method"].call(job) == handlers["bound"].call(job) == {"street": "High Street"}
        assert handlers["partial"].call(job) == (job, {"street": "Low Street"})

    def test_an_async_handler_is_seen_as_one(self) -> None:
        assert is_async(typed.handlers["later"].call)
        assert not is_async(typed.handlers["both"].call)
