"""A task's details as plain data: they come back equal, or they are refused before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, RootModel, SecretStr, computed_field
from pydantic.alias_generators import to_camel

from jobboard import Converter, InvalidPosting, backend
from jobboard.codec import decode, encode
from jobboard.conductor.encoded_details import encode_details
from jobboard.conductor.typed_details import fit_details


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Way(StrEnum):
    AIR = "air"
    SEA = "sea"


class Rank(IntEnum):
    FIRST = 1
    LAST = 9


class Point(TypedDict):
    x: int
    label: NotRequired[str]


@dataclass
class Leaf:
    number: int
    ratio: float
    text: str
    data: bytes
    id: UUID
    day: date
    clock: time
    span: timedelta
    price: Decimal
    at: datetime
    size: Size
    way: Way
    rank: Rank
    kind: Literal["a", "b", 3]
    maybe: Decimal | None = None


@dataclass(frozen=True)
class Other:
    number: int
    note: str = ""
    derived: int = field(init=False, default=7)


@dataclass
class Tree:
    leaf: Leaf | None
    point: Point
    either: Leaf | Other | int | str | None
    leaves: list[Leaf]
    by_name: dict[str, Other]
    ids: set[UUID]
    days: frozenset[date]
    pair: tuple[Decimal, Other]
    many: tuple[UUID, ...]
    anything: Any = None
    below: list[Tree] = field(default_factory=list)


class Home(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    house_number: int
    built_on: date | None = None


class Person(BaseModel):
    name: str
    mail: str = Field(alias="e-mail")
    phone: str = Field(default="", validation_alias="tel", serialization_alias="call")
    nick: str = Field(default="", validation_alias=AliasChoices("nick-name", "nick"))
    born: date
    seen: datetime | None = None
    id: UUID
    data: bytes = b""
    span: timedelta = timedelta(0)
    wages: Decimal = Decimal(0)
    size: Size = Size.SMALL
    homes: dict[int, Home] = {}
    tags: set[str] = set()
    pair: tuple[int, str] = (0, "")
    leaf: Other | None = None

    @computed_field
    def initial(self) -> str:
        return self.name[:1]


@dataclass
class WithModel:
    person: Person
    homes: list[Home]


NUMBERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SPANS = st.timedeltas(timedelta(days=-10000), timedelta(days=10000))
PRICES = st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9)
MOMENTS = st.datetimes(
    datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.sampled_from([UTC, timezone(timedelta(hours=5))])
)
LEAVES = st.builds(
    Leaf, NUMBERS, st.floats(allow_nan=False), TEXTS, st.binary(max_size=8), st.uuids(), st.dates(), st.times(), SPANS,
    PRICES, MOMENTS, st.sampled_from(Size), st.sampled_from(Way), st.sampled_from(Rank),
    st.sampled_from(["a", "b", 3]), st.none() | PRICES,
)  # fmt: skip
OTHERS = st.builds(Other, NUMBERS, TEXTS)
POINTS = st.fixed_dictionaries({"x": NUMBERS}, optional={"label": TEXTS})


def trees(below: st.SearchStrategy[list[Tree]]) -> st.SearchStrategy[Tree]:
    return st.builds(
        Tree, st.none() | LEAVES, POINTS, st.one_of(st.none(), LEAVES, OTHERS, NUMBERS, TEXTS),
        st.lists(LEAVES, max_size=2), st.dictionaries(TEXTS, OTHERS, max_size=2), st.sets(st.uuids(), max_size=2),
        st.frozensets(st.dates(), max_size=2), st.tuples(PRICES, OTHERS), st.lists(st.uuids(), max_size=2).map(tuple),
        st.none() | NUMBERS | st.lists(TEXTS, max_size=2), below,
    )  # fmt: skip


TREES = st.recursive(
    trees(st.just([])), lambda inner: trees(st.lists(inner, max_size=2)), max_leaves=3
)  # fmt: skip
HOMES = st.builds(lambda number, day: Home(houseNumber=number, builtOn=day), NUMBERS, st.none() | st.dates())
PERSONS = st.builds(
    lambda mail, phone, nick, **others: Person.model_validate(
        {"e-mail": mail, "tel": phone, "nick-name": nick, **others}
    ),
    TEXTS, TEXTS, TEXTS, name=TEXTS, born=st.dates(), seen=st.none() | MOMENTS | st.datetimes(), id=st.uuids(),
    data=st.binary(max_size=8), span=SPANS, wages=PRICES, size=st.sampled_from(Size),
    homes=st.dictionaries(st.integers(0, 9), HOMES, max_size=2), tags=st.sets(TEXTS, max_size=2),
    pair=st.tuples(NUMBERS, TEXTS), leaf=st.none() | OTHERS,
)  # fmt: skip


def back(kind: type, details: Any, converter: Converter | None = None) -> Any:
    """Return details as a handler gets them, after they were on a board."""
    stored = encode("details", encode_details(kind, details), converter=converter).data
    return fit_details(kind, decode(stored, converter=converter))


@given(TREES, st.sampled_from([None, Converter()]))
def test_dataclasses_and_typed_dicts_come_back_equal(tree: Tree, converter: Converter | None) -> None:
    assert back(Tree, tree, converter) == tree


@given(POINTS)
def test_a_typed_dict_is_sent_as_it_is(point: Point) -> None:
    assert encode_details(Point, point) == point


@given(PERSONS, st.lists(HOMES, max_size=2))
def test_models_come_back_equal_whatever_their_aliases(person: Person, homes: list[Home]) -> None:
    assert back(Person, person) == person
    assert back(WithModel, WithModel(person, homes)) == WithModel(person, homes)


def test_what_only_the_boards_converter_knows_is_left_to_it() -> None:
    converter = Converter().add("money", Money, lambda money: money.cents, Money)
    assert back(Paid, Paid(Money(5), [Money(7)]), converter) == Paid(Money(5), [Money(7)])
    with pytest.raises(InvalidPosting, match=r"details\.price"):
        back(Paid, Paid(Money(5), []))


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and self.cents == other.cents

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Paid:
    price: Money
    parts: list[Money]


class Pair(NamedTuple):
    left: int
    right: int


class Name(str):
    __slots__ = ()


class Odd(Enum):
    PAIR = (1, 2)


@dataclass(frozen=True)
class Rush(Other):
    hours: int = 1


@dataclass
class Wrong:
    """One field for each fault; each is right to begin with."""

    number: int = 1
    ratio: float = 1.0
    text: str = ""
    id: UUID | None = None
    day: date | None = None
    span: timedelta | None = None
    way: Literal["a", "b"] = "a"
    either: UUID | str = ""
    other: Other = field(default_factory=lambda: Other(1))
    others: list[Other] = field(default_factory=list)
    pair: tuple[int, int] = (1, 2)
    weights: dict[str, float] = field(default_factory=dict)
    point: Point = field(default_factory=lambda: Point(x=1))
    named: Name | None = None
    couple: Pair | None = None
    odd: Odd | None = None
    home: Home | None = None


SECRET = "SECRET"


@pytest.mark.parametrize(
    ("name", "value", "path", "fault"),
    [
        ("number", SECRET, "details.number", "must be int, not str"),
        ("number", True, "details.number", "must be int, not bool"),
        ("number", None, "details.number", "must be int, not NoneType"),
        ("ratio", SECRET, "details.ratio", "must be float, not str"),
        ("text", b"SECRET", "details.text", "must be str, not bytes"),
        ("id", SECRET, "details.id", "must be UUID, not str"),
        ("day", datetime(2030, 1, 2, tzinfo=UTC), "details.day", "must be date, not datetime"),
        ("span", timedelta(days=999999999, microseconds=1), "details.span", "would not come back as it is"),
        ("way", SECRET, "details.way", "must be one of 'a', 'b'"),
        ("either", uuid4(), "details.either", "would come back as another one of them"),
        ("either", 7, "details.either", "fits none of the types that it may have"),
        ("other", {"number": 1}, "details.other", "must be Other, not dict"),
        ("other", Rush(1), "details.other", "must be Other, not Rush"),
        ("other", Other(SECRET), "details.other.number", "must be int, not str"),  # type: ignore[arg-type]
        ("others", [Other(1), SECRET], "details.others[1]", "must be Other, not str"),
        ("others", (Other(1),), "details.others", "must be list, not tuple"),
        ("pair", (1, 2, 3), "details.pair", "must have 2 items, not 3"),
        ("pair", [1, 2], "details.pair", "must be tuple, not list"),
        ("weights", {SECRET: SECRET}, "details.weights.*", "must be float, not str"),
        ("weights", {7: 1.0}, "details.weights", "has a key that is no str"),
        ("point", {"label": SECRET}, "details.point.x", "is missing"),
        ("point", {"x": 1, "lable": SECRET}, "details.point.lable", "is no field of Point"),
        ("named", Name(SECRET), "details.named", "would not come back as Name"),
        ("couple", Pair(1, 2), "details.couple", "would not come back as Pair"),
        ("odd", Odd.PAIR, "details.odd", "whose value would not come back as tuple"),
        ("home", Home.model_construct(house_number=SECRET), "details.home.houseNumber", "int_parsing"),
    ],
)
def test_what_would_not_come_back_is_refused_by_its_field(name: str, value: Any, path: str, fault: str) -> None:
    details = Wrong()
    assert back(Wrong, details) == details
    setattr(details, name, value)
    with pytest.raises(InvalidPosting) as caught:
        encode_details(Wrong, details)
    assert caught.value.path == path
    assert fault in str(caught.value)
    assert SECRET not in str(caught.value)


class Login(BaseModel):
    name: str
    word: SecretStr


class Hidden(BaseModel):
    name: str
    word: str = Field(default="", exclude=True)


class Names(RootModel[dict[str, list[Home]]]):
    """Details that are a dict of models."""


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


def test_a_model_that_hides_what_it_has_is_refused_by_that_field() -> None:
    for model in (Login(name="Ann", word=SecretStr(SECRET)), Hidden(name="Ann", word=SECRET)):
        with backend("secrets", "memory://secrets") as board, pytest.raises(InvalidPosting) as caught:
            # Older pydantic leaves a secret as it is, for a converter of the board.
            board.post("log in", encode_details(type(model), model))
        assert caught.value.path == "details.word"
        assert SECRET not in str(caught.value)


def test_roots_and_extra_fields_of_models_come_back() -> None:
    names = Names({"Ann": [Home(houseNumber=1)]})
    assert back(Names, names) == names
    person = Open.model_validate({"name": "Ann", "more": [1, 2]})
    assert back(Open, person) == person


@dataclass
class Chain:
    next: Chain | Other | None


def test_details_that_contain_themselves_are_refused() -> None:
    chain = Chain(None)
    chain.next = chain
    with pytest.raises(InvalidPosting, match="nested too deep"):
        encode_details(Chain, chain)


class Left(TypedDict):
    next: Left | Right | None
    end: int


class Right(TypedDict):
    next: Left | Right | None
    end: int


def test_unions_in_each_other_take_no_longer_than_the_details_are() -> None:
    """Trying each of them in both ways would take 2 to the power of 60 steps."""
    riddle: dict[str, Any] = {"next": None, "end": "wrong"}
    for _ in range(60):
        riddle = {"next": riddle, "end": 1}
    with pytest.raises(InvalidPosting, match=r"details\.next fits none"):
        encode_details(Left, riddle)
