"""Details in files that other boards can load: what JSON has no form for stands in a dict with one key."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

#: The keys of these dicts, and what reads their values. A dict that looks like one of them is the value of ``$dict``.
_FORMS: dict[str, Callable[[Any], Any]] = {
    "$datetime": datetime.fromisoformat,
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$float": float,
    "$dict": lambda items: {key: from_json(item) for key, item in items.items()},
}


def parse_json(text: str) -> Any:
    """Return what a JSON text says. NaN and infinities are no JSON, though Python's reader takes them.

    :raises ValueError: it is no JSON.
    :raises RecursionError: it is nested too deep.
    """
    return json.loads(text, parse_constant=_refuse_number, parse_float=_finite)


def parse_details(text: str) -> dict[str, Any]:
    """Return the details that a JSON text says, which is an object.

    :raises ValueError: it is none; goes on a sentence that begins with what the text is.
    """
    try:
        details = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON that can be read: {error}") from None
    if not isinstance(details, dict):
        raise ValueError('must be a JSON object, such as \'{"path": "/a.png"}\'')
    return details


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text} is too large")
    return number


def _refuse_number(text: str) -> Any:
    raise ValueError(f"JSON has no number {text}; use null, or a text")


def to_json(value: Any) -> Any:
    """Return plain data as JSON data that :func:`from_json` reads; dataclasses and other types stay as they are."""
    if isinstance(value, datetime):
        return {"$datetime": value.isoformat()}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if isinstance(value, dict):
        items = {key: to_json(item) for key, item in value.items()}
        return {"$dict": items} if _is_form(value) else items
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return value


def from_json(value: Any) -> Any:
    """Return what :func:`to_json` was given.

    :raises ValueError: one of the dicts with one key is none that it has made.
    """
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if not _is_form(value):
        return {key: from_json(item) for key, item in value.items()}
    ((form, content),) = value.items()
    try:
        return _FORMS[form](content)
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"the value of a {form} can't be read") from None


def _is_form(value: dict[str, Any]) -> bool:
    return len(value) == 1 and not _FORMS.keys().isdisjoint(value)
