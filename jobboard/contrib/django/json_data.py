"""What Django's tasks take and return: JSON, which has neither NaN nor infinities."""

from __future__ import annotations

import math
from typing import Any

from jobboard.contrib.django.compat import normalize_json
from jobboard.errors import InvalidPosting


def as_json(path: str, value: Any) -> Any:
    """Return a value as JSON has it.

    :param path: how errors name the value.
    :raises TypeError: it holds what JSON has no form for.
    :raises InvalidPosting: it holds a number that JSON does not have; names its path.
    """
    data = normalize_json(value)
    _check_numbers(path, data)
    return data


def _check_numbers(path: str, data: Any) -> None:
    if isinstance(data, dict):
        for key, item in data.items():
            _check_numbers(f"{path}.{key}", item)
    elif isinstance(data, list):
        for index, item in enumerate(data):
            _check_numbers(f"{path}[{index}]", item)
    elif isinstance(data, float) and not math.isfinite(data):
        raise InvalidPosting(f"{path} can't be stored: JSON has no number {data}; use None, or a text", path=path)
