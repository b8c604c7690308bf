"""Typed details on a board with a converter: it is asked first, in whatever they are posted and at every depth."""

from __future__ import annotations

import asyncio
import copy
import pickle
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypedDict

import pytest
from helpers.conducting import conducting
from pydantic import BaseModel, ConfigDict, SecretStr

from jobboard import (
    BatchJob,
    Converter,
    Every,
    Handlers,
    InvalidPosting,
    JobBoard,
    JobState,
    Posting,
    RunningJob,
    Schedule,
    Task,
    Then,
    fetch,
)
from jobboard.aio import AsyncJobBoard

PLAIN = "SECRET"


@dataclass(frozen=True)
class Secret:
    value: str


@dataclass(frozen=True)
class Deeper(Secret):
    """A subclass, which the converter carries as its class."""


class Token(BaseModel):
    model_config = ConfigDict(frozen=True)
    value: str


class Grade(Enum):
    TOP = PLAIN


@dataclass(frozen=True)
class Euro:
    amount: int


@dataclass(frozen=True)
class Dollar:
    amount: int


@dataclass
class Inner:
    secret: Secret = field(default_factory=lambda: Secret(PLAIN))


class Loose(TypedDict):
    secret: Secret


class Login(BaseModel):
    secret: Secret = Secret(PLAIN)
    inner: Inner = Inner()
    many: list[Secret] = [Secret(PLAIN)]
    named: dict[str, Secret] = {"a": Secret(PLAIN)}
    either: Secret | int = Secret(PLAIN)
    token: Token = Token(value=PLAIN)
    tokens: tuple[Token, ...] = (Token(value=PLAIN),)


@dataclass
class All:
    secret: Secret = field(default_factory=lambda: Secret(PLAIN))
    inner: Inner = field(default_factory=Inner)
    maybe: Secret | None = field(default_factory=lambda: Secret(PLAIN))
    either: Secret | str | int = field(default_factory=lambda: Secret(PLAIN))
    many: list[Secret | Inner] = field(default_factory=lambda: [Secret(PLAIN), Inner()])
    named: dict[str, list[Secret]] = field(default_factory=lambda: {"a": [Secret(PLAIN)]})
    pair: tuple[Secret, int] = field(default_factory=lambda: (Secret(PLAIN), 1))
    some: frozenset[Secret] = field(default_factory=lambda: frozenset({Secret(PLAIN)}))
    loose: Loose = field(default_factory=lambda: Loose(secret=Secret(PLAIN)))
    login: Login = field(default_factory=Login)
    token: Token = field(default_factory=lambda: Token(value=PLAIN))
    grade: Grade = Grade.TOP
    anything: Any = field(default_factory=lambda: Secret(PLAIN))


def turned(text: str) -> str:
    return text[::-1]


CONVERTER = (
    Converter()
    .add("secret", Secret, lambda secret: turned(secret.value), lambda plain: Secret(turned(plain)))
    .add("token", Token, lambda token: turned(token.value), lambda plain: Token(value=turned(plain)))
    .add("grade", Grade, lambda grade: turned(grade.value), lambda plain: Grade(turned(plain)))
    .add("euro", Euro, lambda euro: euro.amount, Euro)
    .add("dollar", Dollar, lambda dollar: dollar.amount, Dollar)
    .add("hidden", SecretStr, lambda hidden: turned(hidden.get_secret_value()), lambda plain: SecretStr(turned(plain)))
)
handlers = Handlers(max_attempts=1)
seen: list[object] = []


@handlers.handler(on_complete=lambda details: Posting("copied", {"copy": [details["secret"], details["inner"]]}))
def everything(details: All) -> None:
    seen.append(details)


@handlers.handler
def loose(details: Loose) -> None:
    seen.append(details)


@handlers.handler
def login(details: Login) -> None:
    seen.append(details)


@handlers.handler
def secret(details: Secret) -> None:
    seen.append(details)


@handlers.batch("several", wait=0)
def several(_jobs: list[BatchJob], details: list[Secret]) -> None:
    seen.extend(details)


@handlers.handler
def copied(_job: RunningJob) -> None:
    """What follows another one."""


@handlers.handler
def first(_job: RunningJob) -> Then:
    return Then([Posting.of(login, Login())])


@pytest.fixture
def uri() -> str:
    return f"memory://{uuid.uuid4().hex}"


@pytest.fixture
def board(uri: str) -> Iterator[JobBoard]:
    seen.clear()
    with fetch("work", uri, converter=CONVERTER) as board:
        yield board


def post(board: JobBoard, task: Task[Any, ..., Any], details: Any) -> None:
    task.post(board, details)


def post_awaited(board: JobBoard, task: Task[Any, ..., Any], details: Any) -> None:
    asyncio.run(task.post(AsyncJobBoard.of(board), details))  # type: ignore[arg-type]


def post_many(board: JobBoard, task: Task[Any, ..., Any], details: Any) -> None:
    board.post_many([Posting.of(task, details)])


def post_after_pickling(board: JobBoard, task: Task[Any, ..., Any], details: Any) -> None:
    board.post_many(copy.deepcopy(pickle.loads(pickle.dumps([Posting.of(task, details)]))))


def post_encoded(board: JobBoard, task: Task[Any, ..., Any], details: Any) -> None:
    board.post(task.name, task.encode(details))


def schedule(board: JobBoard, task: Task[Any, ..., Any], details: Any) -> None:
    board.schedules.add(Schedule("it", Every(seconds=60), task, details))
    assert PLAIN not in repr(board.schedules.get("it").details)
    board.schedules.fire_now("it")


FACES = [post, post_awaited, post_many, post_after_pickling, post_encoded, schedule]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("task", "details"),
    [
        (everything, All()),
        (loose, Loose(secret=Secret(PLAIN))),
        (login, Login()),
        (secret, Secret(PLAIN)),
        (several, Secret(PLAIN)),
    ],
)
def test_nothing_of_a_type_of_the_converter_is_stored_by_its_fields(
    board: JobBoard, face: Callable[..., None], task: Task[Any, ..., Any], details: Any
) -> None:
    face(board, task, details)
    assert not [job for job in board.iterjobs() if PLAIN.encode() in job.raw]
    assert any(turned(PLAIN).encode() in job.raw for job in board.iterjobs())
    with conducting(board, handlers, "thread"):
        assert all(job.wait(20) for job in list(board.iterjobs()))
    assert seen == [details]


def test_what_follows_gets_no_more_than_the_job(board: JobBoard, uri: str) -> None:
    board.post_many([Posting("first"), Posting.of(everything, All())])
    everything.post(board, All())
    with conducting(board, handlers, "thread"):
        assert all(job.wait(20) for job in list(board.iterjobs()))
    with fetch("work", uri) as plain:
        jobs = list(plain.iterjobs(states=set(JobState)))
        assert {job.name for job in jobs} == {"first", "login", "everything", "copied"}
        assert not [job.name for job in jobs if PLAIN.encode() in job.raw]


def test_a_board_without_the_converter_has_the_fields(uri: str) -> None:
    with fetch("work", uri) as board:
        assert secret.post(board, Secret(PLAIN)).details == {"value": PLAIN}
        assert board.post_many([Posting.of(secret, Secret(PLAIN))])[0].details == {"value": PLAIN}
        with conducting(board, handlers, "thread"):
            assert all(job.wait(20) for job in list(board.iterjobs()))


def test_what_was_added_to_encoded_details_stays(board: JobBoard) -> None:
    details = everything.encode(All())
    details["more"] = 1
    job = board.post("everything", details)
    assert job.details is not None
    assert (job.details["more"], job.details["secret"]) == (1, Secret(PLAIN))


@dataclass
class Mixed:
    price: Euro | Dollar
    secret: Secret | None = None
    exact: Deeper | None = None


mixed_handlers = Handlers()


@mixed_handlers.handler
def mixed(details: Mixed) -> None:
    """Gets what only its converter tells apart."""


class Hidden(BaseModel):
    password: SecretStr


@mixed_handlers.handler
def hidden(details: Hidden) -> None:
    """Gets what pydantic does not dump."""


class TestTold:
    """What the converter allows that the rules of dataclasses and models do not."""

    def test_types_of_equal_fields_are_told_apart(self, board: JobBoard) -> None:
        assert mixed.post(board, Mixed(Dollar(5))).details == {"price": Dollar(5), "secret": None, "exact": None}

    def test_a_subclass_arrives_as_the_class_that_was_added(self, board: JobBoard) -> None:
        details = mixed.post(board, Mixed(Euro(1), Deeper(PLAIN))).details
        assert details is not None
        assert type(details["secret"]) is Secret

    def test_one_that_would_arrive_as_another_type_is_refused(self, board: JobBoard) -> None:
        with pytest.raises(InvalidPosting) as caught:
            mixed.post(board, Mixed(Euro(1), exact=Deeper(PLAIN)))
        assert caught.value.path == "details.exact"
        assert PLAIN not in str(caught.value)

    def test_a_value_of_another_type_is_refused_by_its_field(self, board: JobBoard) -> None:
        with pytest.raises(InvalidPosting) as caught:
            mixed.post(board, Mixed(Secret(PLAIN)))  # type: ignore[arg-type]
        assert caught.value.path == "details.price"

    def test_what_a_model_hides_arrives(self, board: JobBoard) -> None:
        password = SecretStr(PLAIN)
        assert hidden.post(board, Hidden(password=password)).details == {"password": password}

    def test_an_encoder_that_fails_is_named(self, uri: str) -> None:
        broken = Converter().add("secret", Secret, lambda secret: 1 // 0, lambda plain: Secret(PLAIN))
        with fetch("work", uri, converter=broken) as board:
            for give in (post, post_many):
                with pytest.raises(InvalidPosting, match="its converter 'secret' raised ZeroDivisionError") as caught:
                    give(board, mixed, Mixed(Euro(1), Secret(PLAIN)))
                assert caught.value.path == "details.secret"

    def test_a_decoder_that_refuses_it_is_found_before_it_is_sent(self, uri: str) -> None:
        broken = Converter().add("secret", Secret, lambda secret: secret.value, lambda plain: Secret(plain[99]))
        with fetch("work", uri, converter=broken) as board:
            with pytest.raises(InvalidPosting) as caught:
                mixed.post(board, Mixed(Euro(1), Secret(PLAIN)))
            assert caught.value.path == "details.secret"


def test_a_posting_is_the_same_whatever_its_board(uri: str) -> None:
    posting = Posting.of(login, Login())
    assert posting.details == login.encode(Login())
    assert replace(posting, key="a").details == posting.details
