"""Many at once on a SQL server: many who want the same rows, many processes, many jobs, and a long look beside them."""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from harnesses.sql_site import Site

from jobboard import JobBoard, Posting
from jobboard.backends.rows import Trashing
from jobboard.testing import eventually
from jobboard.testing.contract.processes import Rival

pytest_plugins = ("harnesses.sql_fixtures",)
pytestmark = pytest.mark.in_turn(1)

LONG = 600.0


def _deadlocks(site: Site) -> int:
    if site.is_postgresql:
        return int(site.run("SELECT deadlocks FROM pg_stat_database WHERE datname = 'jobs'")[0][0])
    return int(site.run("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")[0][1])


def test_a_storm_of_deadlocks_costs_time_only(site: Site) -> None:
    before, board = _deadlocks(site), site.harness.board()
    uuids = [job.uuid for job in board.post_many([Posting("resize", key=str(n)) for n in range(30)])]
    backends = [site.harness.board(board.name)._backend for _ in range(4)]
    faults: list[BaseException] = []
    ended = threading.Event()

    def storm(backend: Any, seed: int) -> None:
        dice = random.Random(seed)
        try:
            while not ended.is_set():
                order = dice.sample(uuids, len(uuids))
                backend.jobs.trash([Trashing(uuid, None, "storm") for uuid in order])
                backend.jobs.restore(dice.sample(uuids, len(uuids)))
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=storm, args=(backend, seed)) for seed, backend in enumerate(backends)]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: faults or _deadlocks(site) >= before + 5, within=60)
    finally:
        ended.set()
        for thread in threads:
            thread.join(60)
    assert faults == []
    board._backend.jobs.restore(uuids)
    assert ([job.uuid for job in board.iterjobs()], board.audit()) == (uuids, [])


def test_eight_processes_consume_every_job_once(site: Site) -> None:
    board = site.harness.board()
    posted = board.post_many([Posting("resize") for _ in range(400)])
    racers = [Rival("drain", site.harness.uri(), board.name, f"rival {number}") for number in range(8)]
    try:
        for racer in racers:
            racer.until_ready()
        for racer in racers:
            racer.go()
        consumed = [line["uuid"] for racer in racers for line in racer.lines()]
    finally:
        for racer in racers:
            racer.end()
    assert Counter(consumed) == Counter(job.uuid for job in posted)
    assert (board.job_count, board.audit()) == (0, [])


def test_a_long_running_transaction_beside_it_holds_nobody_up(site: Site) -> None:
    board, name = site.harness.board(), "jobboard_jobs"
    board.post_many([Posting("resize") for _ in range(200)])
    with closing(site.server.client()) as client, client.cursor() as cursor:
        cursor.execute("START TRANSACTION ISOLATION LEVEL REPEATABLE READ" if site.is_postgresql else "BEGIN")
        cursor.execute(f"SELECT count(*) FROM {name} WHERE state = 1")
        seen = cursor.fetchone()
        for _ in range(200):
            [job] = board.claim_next("alice", expiry=LONG)
            board.consume(job, "alice")
        assert (board.job_count, board.claim_next("alice")) == (0, [])
        cursor.execute(f"SELECT count(*) FROM {name} WHERE state = 1")
        assert cursor.fetchone() == seen
    assert board.audit() == []


# -- 50,000 waiting jobs -----------------------------------------------------------------------------------------------


def _time_of_a_claim(board: JobBoard) -> float:
    begin = time.perf_counter()
    [job] = board.claim_next("alice", expiry=LONG)
    took = time.perf_counter() - begin
    board.abandon(job, "alice", counted=False)
    return took


def test_a_claim_costs_the_same_with_a_hundred_and_with_fifty_thousand_waiting(site: Site) -> None:
    few, many = site.harness.board(), site.harness.board()
    site.fill(few, 100)
    site.fill(many, 50_000)
    assert (few.job_count, many.job_count) == (100, 50_000)
    ratios = []
    for _ in range(5):
        times = [(_time_of_a_claim(few), _time_of_a_claim(many)) for _ in range(40)]
        little, much = (statistics.median(each) for each in zip(*times, strict=True))
        ratios.append(much / little)
    assert min(ratios) <= 1.5, ratios
