"""A logbook of TaskFlow as it is kept in one of ours: an entry for itself, each flow detail and each atom detail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oslo_serialization import jsonutils
from taskflow import exceptions as taskflow_errors
from taskflow.persistence import models

_BOOK, _FLOW, _ATOM = "book", "flow/", "atom/"


class StoredBook:
    """Changes stay in :attr:`entries` until they are saved.

    The entries are JSON, as in TaskFlow's own backends, so that results come back the same from all of them.
    """

    def __init__(self, uuid: str, entries: dict[str, Any]) -> None:
        self.uuid = uuid
        self.entries = entries

    @property
    def is_taskflows(self) -> bool:
        """Whether it is one of TaskFlow's."""
        return _BOOK in self.entries

    @property
    def name(self) -> str:
        return str(self._read(_BOOK)["name"])

    def uuids(self) -> list[str]:
        """Return the uuids of its flow and atom details."""
        return [name.partition("/")[2] for name in self.entries if name.startswith((_FLOW, _ATOM))]

    def flow_of(self, uuid: str) -> str:
        """Return the uuid of the flow detail that an atom detail is in; a flow detail's is its own."""
        return str(self._read(_ATOM + uuid)["in"]) if _ATOM + uuid in self.entries else uuid

    # -- read ------------------------------------------------------------------------------------------------------

    def book(self, lazy: bool = False) -> Any:
        book = models.LogBook.from_dict(self._read(_BOOK), unmarshal_time=True)
        for flow in () if lazy else self.flows():
            book.add(flow)
        return book

    def flows(self, lazy: bool = False) -> Iterator[Any]:
        for uuid in self._in_order(_FLOW):
            yield self.flow(uuid, lazy)

    def flow(self, uuid: str, lazy: bool = False) -> Any:
        flow = models.FlowDetail.from_dict(self._read(_FLOW + uuid)["flow"])
        for atom in () if lazy else self.atoms(uuid):
            flow.add(atom)
        return flow

    def atoms(self, flow_uuid: str) -> Iterator[Any]:
        for uuid in self._in_order(_ATOM):
            if self.flow_of(uuid) == flow_uuid:
                yield self.atom(uuid)

    def atom(self, uuid: str) -> Any:
        content = self._read(_ATOM + uuid)
        return models.atom_detail_class(content["type"]).from_dict(content["atom"])

    # -- change ----------------------------------------------------------------------------------------------------

    def put_book(self, book: Any) -> None:
        """Merge a logbook with all that is in it."""
        merged = self.book(lazy=True).merge(book) if self.is_taskflows else book
        self.entries[_BOOK] = jsonutils.dumps(merged.to_dict(marshal_time=True))
        for flow in book:
            self.put_flow(flow)

    def put_flow(self, flow: Any) -> Any:
        """Merge a flow detail with its atom details; returns what is kept."""
        merged = self.flow(flow.uuid, lazy=True).merge(flow) if _FLOW + flow.uuid in self.entries else flow
        self._write(_FLOW + flow.uuid, {"flow": merged.to_dict()})
        for atom in flow:
            self.put_atom(atom, flow.uuid)
        return flow

    def put_atom(self, atom: Any, flow_uuid: str) -> Any:
        """Merge an atom detail; returns what is kept."""
        merged = self.atom(atom.uuid).merge(atom) if _ATOM + atom.uuid in self.entries else atom
        content = {"in": flow_uuid, "type": models.atom_detail_type(merged), "atom": merged.to_dict()}
        self._write(_ATOM + atom.uuid, content)
        return merged

    # -- inside ----------------------------------------------------------------------------------------------------

    def _read(self, name: str) -> Any:
        try:
            return jsonutils.loads(self.entries[name])
        except KeyError:
            raise taskflow_errors.NotFound(
                f"no {name.partition('/')[0]} detail {name} in logbook {self.uuid}"
            ) from None

    def _write(self, name: str, content: dict[str, Any]) -> None:
        """Keep the place of what is there already; stores keep no order."""
        place = self._read(name)["n"] if name in self.entries else len(self.entries)
        self.entries[name] = jsonutils.dumps({"n": place, **content})

    def _in_order(self, kind: str) -> list[str]:
        names = [name for name in self.entries if name.startswith(kind)]
        return [name.partition("/")[2] for name in sorted(names, key=lambda name: int(self._read(name)["n"]))]
