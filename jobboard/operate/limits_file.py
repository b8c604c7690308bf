"""The limits of a file: the table ``[limits]`` of ``jobboard.toml``, or of a TOML file of its own; read and written."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from jobboard.limit import Limit, Rate, check_limit
from jobboard.operate.durations import seconds_of

#: What a limit can be of: the tables in ``[limits]``.
_SCOPES = ("name", "lane")
_KEYS, _RATE_KEYS = ("running", "rate", "burst", "order"), ("count", "per", "burst")


def limits_in(text: str, where: str) -> list[Limit]:
    """Return the limits of a TOML file; [] if it has no table ``[limits]``.

    :param where: what errors call the file.
    :raises ValueError: it is no TOML, or says which limit is wrong and why.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{where} is no TOML: {error}") from None
    return limits_of(content.get("limits", {}), f"{where}: limits")


def limits_of(table: object, where: str) -> list[Limit]:
    """Return the limits of a table ``[limits]``, which has tables ``name`` and ``lane``; errors as :func:`limits_in`.

    A limit has ``running``, ``rate`` and ``order``, as ``board.limits.set`` takes them; a rate is a text such as
    ``"30/60s"``, with ``burst`` beside it, or a table of ``count``, ``per`` and ``burst``.
    """
    found = []
    for scope, limits in _table_of(table, where, _SCOPES).items():
        for pattern, terms in _table_of(limits, f"{where}.{scope}").items():
            which = f"{where}.{scope}.{json.dumps(pattern, ensure_ascii=False)}"
            given = _table_of(terms, which, _KEYS)
            target = {"name": None, "lane": None, scope: pattern}
            try:
                rate = _rate_of(given.get("rate"), given.get("burst"))
                found.append(
                    check_limit(**target, running=given.get("running"), rate=rate, order=given.get("order", "free"))
                )
            except (TypeError, ValueError) as error:
                raise ValueError(f"{which}: {error}") from None
    return found


def limits_as_toml(limits: Iterable[Limit]) -> str:
    """Return limits as :func:`limits_in` reads them, without pauses and who set them."""
    lines = []
    for limit in limits:
        scope, pattern = ("name", limit.name) if limit.lane is None else ("lane", limit.lane)
        terms = ", ".join(f"{key} = {_written(value)}" for key, value in terms_of(limit).items())
        lines.append(f"{scope}.{_written(pattern)} = {{ {terms} }}")
    return "\n".join(["[limits]", *sorted(lines)])


def terms_of(limit: Limit) -> dict[str, Any]:
    """Return what a limit says, as a file has it; what is by default is left out."""
    terms: dict[str, Any] = {} if limit.running is None else {"running": limit.running}
    if limit.rate is not None:
        terms["rate"] = rate_text(limit.rate)
        terms |= {} if limit.rate.burst == 1 else {"burst": limit.rate.burst}
    return terms | ({} if limit.order == "free" else {"order": limit.order})


def rate_of(text: str, burst: int = 1) -> Rate:
    """Read a rate such as ``30/60s``.

    :raises ValueError: it is none. :raises TypeError: ``burst`` is no whole number.
    """
    count, slash, per = text.partition("/")
    try:
        if not slash:
            raise ValueError
        return Rate(int(count), seconds_of(per), burst)
    except ValueError as error:
        said = f": {error}" if str(error) else ""
        raise ValueError(f"{text!r} is no rate, such as 30/60s or 1/5m{said}") from None


def rate_text(rate: Rate) -> str:
    """Return a rate as :func:`rate_of` reads it, without its burst."""
    return f"{rate.count}/{int(rate.per) if rate.per == int(rate.per) else rate.per}s"


def _rate_of(value: object, burst: Any) -> Rate | None:
    if value is None:
        if burst is not None:
            raise ValueError("burst belongs to a rate")
        return None
    if isinstance(value, dict) and burst is None:
        terms = _table_of(value, "rate", _RATE_KEYS)
        missing = [key for key in ("count", "per") if key not in terms]
        if missing:
            raise ValueError(f"rate has no {missing[0]}")
        per = terms["per"]
        return Rate(terms["count"], seconds_of(per) if isinstance(per, str) else per, terms.get("burst", 1))
    if not isinstance(value, str):
        raise TypeError('rate must be a text such as "30/60s", or a table such as {count = 30, per = 60}')
    return rate_of(value, 1 if burst is None else burst)


def _table_of(value: object, where: str, known: tuple[str, ...] | None = None) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be a table")
    for key in value:
        if known is not None and key not in known:
            raise ValueError(f"{where} has an unknown key {key!r}; there are: {', '.join(known)}")
    return value


def _written(value: str | int | None) -> str:
    # A text of JSON is one of TOML, as far as lanes and names have characters: none that is a control.
    return json.dumps(value, ensure_ascii=False)
