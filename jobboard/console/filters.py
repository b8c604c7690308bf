"""The filters of jobs in URLs, so that every list can be bookmarked, and stays as it is after an action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException

from jobboard.operate.durations import seconds_of
from jobboard.operate.selecting import Selection
from jobboard.states import LIVE, JobState

if TYPE_CHECKING:
    from jobboard.console.view import View

#: The parameters with a text that :class:`Selection` takes as it is, under the same name.
_TEXTS = ("key", "lane", "key_prefix", "key_contains", "owner", "reason", "kind", "schedule")

#: How their chips call those whose names say too little.
_LABELS = {
    "key_prefix": "key begins with",
    "key_contains": "key has",
    "uuid": "uuid begins or ends with",
    "owner": "owner begins with",
    "older": "older than",
    "newer": "newer than",
    "reason": "reason has",
    "kind": "kind of reason",
}


@dataclass(frozen=True, slots=True)
class Filters:
    """What the URL says about which jobs.

    :ivar query: the same for another URL; ``state`` is a list.
    """

    query: Mapping[str, Any]
    selection: Selection

    @property
    def states(self) -> list[str]:
        """The states that are asked for, in small letters; [] for those on the board."""
        states: list[str] = self.query.get("state", [])
        return states

    def get(self, name: str) -> str:
        """Return a parameter other than ``state`` for a form; "" if it is not given."""
        return str(self.query.get(name, ""))

    def but(self, **changes: Any) -> dict[str, Any]:
        """Return the query with other values; None or [] leaves one out."""
        return {name: value for name, value in {**self.query, **changes}.items() if value not in (None, "", [])}

    @property
    def chips(self) -> list[tuple[str, str, dict[str, Any]]]:
        """The name and value of each filter but states, and the query without it."""
        return [
            (_LABELS.get(name, name.replace("_", " ")), str(value), self.but(**{name: None}))
            for name, value in self.query.items()
            if name != "state"
        ]

    @property
    def are_chosen(self) -> bool:
        """Whether there is any filter but states: only then may something be done to all that fit."""
        return bool(set(self.query) - {"state"})


def filters_of(view: View) -> Filters:
    """Read the filters of a request's URL.

    :raises HTTPException: 400 says which parameter can't be read.
    """
    states = [state.lower() for state in view.request.query_params.getlist("state") if state]
    texts: dict[str, Any] = {name: text for name in _TEXTS if (text := view.query(name))}
    if uuid := view.typed("uuid"):
        texts["uuid"] = uuid
    name, older, newer = view.query("name"), view.typed("older"), view.typed("newer")
    try:
        wanted = {JobState(state.upper()) for state in states} or LIVE
        selection = Selection(
            states=wanted,
            names={name} if name else None,
            older_than=seconds_of(older) if older else None,
            newer_than=seconds_of(newer) if newer else None,
            details=_details_of(view),
            **texts,
        )
    except (TypeError, ValueError) as error:
        raise HTTPException(400, f"the filters can't be read: {error}") from None
    query = {"state": states, "name": name, **texts, "older": older, "newer": newer, "detail": view.typed("detail")}
    return Filters({name: value for name, value in query.items() if value}, selection)


def _details_of(view: View) -> dict[str, str] | None:
    """Read ``detail=order.id=4711``, which is for those who may see details."""
    text = view.typed("detail")
    if not text:
        return None
    view.require("details")
    name, is_given, value = text.partition("=")
    if not (name and is_given):
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return {name: value}
