"""Pydantic models as plain data, by the names that they are validated by."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from datetime import datetime
from typing import Any

from jobboard.conductor.typed_details import Misfit, fit_model, is_model
from jobboard.converter import Converter

_SEQUENCES = (list, tuple, deque)
_CARRIED = (type(None), bool, int, float, str, bytes)


def dump_model(kind: Any, model: Any, path: str, converter: Converter) -> Any:
    """Return a model as plain data, which is valid, and makes an equal model; what is added to the converter stays.

    :raises Misfit: it is not, or does not.
    """
    from pydantic_core import PydanticSerializationError

    try:
        # By name, since a field may be serialized by another alias than it is validated by.
        dumped = model.model_dump(by_alias=False, round_trip=True, warnings=False)
        dump = _Plain(converter.has_added).of(model, dumped)
    except PydanticSerializationError:
        raise Misfit(path, f"can't be dumped by {kind.__qualname__}") from None
    back = fit_model(kind, dump, path)
    given, got = _content_of(model), _content_of(back)
    if given != got:
        lost = next((name for name in given if got.get(name) != given[name]), None)
        raise Misfit(f"{path}.{lost}" if lost in kind.model_fields else path, "would not come back as it is")
    return dump


def _content_of(model: Any) -> dict[str, Any]:
    return {**{name: getattr(model, name) for name in type(model).model_fields}, **(model.model_extra or {})}


class _Plain:
    """Makes plain data of what a model was dumped as.

    :param stays: whether a value is left to the converter.
    """

    def __init__(self, stays: Callable[[object], bool]) -> None:
        self._stays = stays

    def of(self, value: Any, dump: Any) -> Any:
        """Return what a value was dumped as with what the board carries, and with the keys that validation wants."""
        if self._stays(value):
            return value
        if getattr(value, "__pydantic_root_model__", False):
            return self.of(value.root, dump)
        if isinstance(dump, dict):
            return self._of_dict(value, dump)
        if isinstance(dump, (list, tuple, set, frozenset, deque)):
            items = list(dump)
            inner = list(value) if isinstance(value, _SEQUENCES) and len(value) == len(items) else items
            return [self.of(one, item) for one, item in zip(inner, items, strict=True)]
        return dump if self._stays(dump) else _plain_leaf(dump)

    def _of_dict(self, value: Any, dump: dict[Any, Any]) -> dict[Any, Any]:
        if is_model(type(value)):
            fields = type(value).model_fields
            return {
                _key_of(type(value), name, fields[name]) if name in fields else name: self.of(
                    getattr(value, name), item
                )
                for name, item in dump.items()
            }
        if is_dataclass(value):
            return {name: self.of(getattr(value, name, None), item) for name, item in dump.items()}
        known = value if isinstance(value, Mapping) else {}
        return {_text_of(key): self.of(known.get(key), item) for key, item in dump.items()}


def _key_of(kind: Any, name: str, field: Any) -> str:
    """Return what a field is called in what the model is made from."""
    alias = field.validation_alias
    if alias is None or kind.model_config.get("validate_by_alias") is False:
        return name
    choices = [alias] if isinstance(alias, str) else getattr(alias, "choices", [])
    # A path of more than one step is no key.
    return next((choice for choice in choices if isinstance(choice, str)), name)


def _text_of(key: Any) -> Any:
    """Return the key of a dict as text."""
    from pydantic_core import to_jsonable_python

    return key if isinstance(key, str) else next(iter(to_jsonable_python({key: None})))


def _plain_leaf(value: Any) -> Any:
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    if type(value) in _CARRIED or (type(value) is datetime and value.tzinfo is not None):
        return value
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError:
        # The board's converter may know it; else the board refuses it, and says which it is.
        return value
