"""Pydantic models as plain data, by the names that they are validated by."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from jobboard.conductor.typed_details import Misfit, fit_model, is_model

_CARRIED = (type(None), bool, int, float, str, bytes)


def dump_model(kind: Any, model: Any, path: str) -> Any:
    """Return a model as plain data, which is valid, and makes an equal model.

    :raises Misfit: it is not, or does not.
    """
    from pydantic_core import PydanticSerializationError

    try:
        # By name, since a field may be serialized by another alias than it is validated by.
        dump = _plain(model, model.model_dump(by_alias=False, round_trip=True, warnings=False))
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


def _plain(value: Any, dump: Any) -> Any:
    """Return what a value was dumped as with what the board carries only, and with the keys that validation wants."""
    if getattr(value, "__pydantic_root_model__", False):
        return _plain(value.root, dump)
    if is_model(type(value)) and isinstance(dump, dict):
        fields = type(value).model_fields
        return {
            _key_of(type(value), name, fields[name]) if name in fields else name: _plain(getattr(value, name), item)
            for name, item in dump.items()
        }
    if isinstance(dump, dict):
        known = value if isinstance(value, dict) else {}
        return {_text_of(key): _plain(known.get(key), item) for key, item in dump.items()}
    if isinstance(dump, (list, tuple, set, frozenset)):
        items = list(dump)
        inner = list(value) if isinstance(value, (list, tuple)) and len(value) == len(items) else items
        return [_plain(one, item) for one, item in zip(inner, items, strict=True)]
    return _plain_leaf(dump)


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
