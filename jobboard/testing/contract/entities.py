"""Entities: who takes part, alive or gone."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from jobboard.board import JobBoard, register
from jobboard.errors import InvalidPosting
from jobboard.logbook import LogBook
from jobboard.participants import Entity
from jobboard.testing.contract.case import SHORT, Case
from jobboard.testing.deadline import eventually
from jobboard.testing.harness import Harness


class EntityCases(Case):
    def test_a_registered_entity_is_seen_alive_by_any_client(self, board: JobBoard, other: JobBoard) -> None:
        board.register_entity(Entity("conductor", "größe/{a}*", {"pid": 7, "host": "here"}))
        [entity] = other.entities()
        assert (entity.kind, entity.name, entity.metadata) == ("conductor", "größe/{a}*", {"pid": 7, "host": "here"})
        assert (entity.alive, entity.ttl) == (True, 60.0)
        assert entity.last_seen is not None
        assert abs(entity.last_seen - datetime.now(UTC)) < timedelta(minutes=1)

    def test_an_entity_that_registers_no_more_is_gone_but_remembered(self, board: JobBoard) -> None:
        board.register_entity(Entity("conductor", "a", ttl=SHORT))
        board.register_entity(Entity("conductor", "b", ttl=600))
        board.register_entity(Entity("conductor", "c", ttl=math.inf))
        assert [(entity.name, entity.ttl) for entity in board.entities()] == [("a", SHORT), ("b", 600), ("c", math.inf)]
        eventually(lambda: [entity.alive for entity in board.entities()] == [False, True, True])

    def test_an_entity_that_registers_again_stays_alive(self, board: JobBoard) -> None:
        board.register_entity(Entity("conductor", "a", {"n": 1}, ttl=SHORT))
        board.register_entity(Entity("conductor", "a", {"n": 2}, ttl=600))
        board.register_entity(Entity("conductor", "witness", ttl=SHORT))
        eventually(lambda: [entity.alive for entity in board.entities()] == [True, False])
        assert board.entities()[0].metadata == {"n": 2}

    def test_an_entity_that_is_gone_can_come_back(self, board: JobBoard) -> None:
        entity = Entity("conductor", "a", ttl=SHORT)
        board.register_entity(entity)
        eventually(lambda: not board.entities()[0].alive)
        board.register_entity(Entity("conductor", "a", ttl=600))
        assert [entity.alive for entity in board.entities()] == [True]

    def test_kind_and_name_together_are_the_identity(self, board: JobBoard) -> None:
        for kind, name in [("conductor", "a"), ("scheduler", "a"), ("conductor", "b"), ("conductor", "a")]:
            board.register_entity(Entity(kind, name))
        assert [(entity.kind, entity.name) for entity in board.entities()] == [
            ("conductor", "a"), ("conductor", "b"), ("scheduler", "a"),
        ]  # fmt: skip

    def test_a_removed_entity_is_forgotten(self, board: JobBoard, other: JobBoard) -> None:
        entity = Entity("conductor", "a")
        board.register_entity(entity)
        board.register_entity(Entity("scheduler", "a"))
        other.remove_entity(entity)
        other.remove_entity(entity)
        assert [entity.kind for entity in board.entities()] == ["scheduler"]

    def test_an_entity_outlives_its_client(self, harness: Harness, board: JobBoard) -> None:
        client = harness.board(board.name)
        client.register_entity(Entity("conductor", "a"))
        client.close()
        assert [entity.name for entity in board.entities()] == ["a"]

    def test_a_registration_tells_of_the_logbook_with_its_orders(self, board: JobBoard, other: JobBoard) -> None:
        entity, orders = Entity("conductor", "a", ttl=600), LogBook("orders")
        # A store that does not look says that there may be one.
        register(board, entity, orders.uuid)
        other.save_book(orders)
        assert register(board, entity, orders.uuid)
        assert [found.alive for found in board.entities()] == [True]

    def test_metadata_that_cannot_be_stored_registers_nothing(self, board: JobBoard) -> None:
        with pytest.raises(InvalidPosting, match=r"metadata\.call"):
            board.register_entity(Entity("conductor", "a", {"call": print}))
        assert board.entities() == []

    def test_entities_of_other_boards_are_not_seen(self, harness: Harness, board: JobBoard) -> None:
        board.register_entity(Entity("conductor", "a"))
        assert harness.board().entities() == []
