"""What handlers did, written down outside the board, and what must have come of it."""

from __future__ import annotations

import itertools
import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jobboard import RunningJob

#: The file's path, which the processes of a soak are told by their environment.
VARIABLE = "SOAK_DIARY"


@contextmanager
def written_down(job: RunningJob) -> Iterator[None]:
    """Write down the beginning and the end of an attempt, also of one that raises."""
    fire = None if job.fire_time is None else [job.schedule_id, job.fire_time.timestamp()]
    _append({"job": job.uuid, "token": job.token, "fire": fire})
    try:
        yield
    finally:
        _append({"job": job.uuid, "token": job.token, "lost": job.lost})


def _append(entry: dict[str, Any]) -> None:
    """Append one line, which O_APPEND keeps whole and in order."""
    descriptor = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, json.dumps(entry).encode() + b"\n")
    finally:
        os.close(descriptor)


def violations(diary: Path, posted: Collection[str]) -> list[str]:
    """Return what the diary shows of broken promises, once the board is empty.

    :param posted: the jobs whose posts have returned.
    """
    entries = [json.loads(line) for line in diary.read_text().splitlines()]
    began = {entry["job"] for entry in entries}
    lost = [f"{uuid} was posted, and never ran" for uuid in posted if uuid not in began]
    return [*lost, *_runs_beside_each_other(entries), *_fires(entries)]


def _runs_beside_each_other(entries: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Each job's attempts follow one another, under tokens that rise, unless the earlier one knows that it is lost."""
    under_way: dict[str, set[int]] = defaultdict(set)
    last: dict[str, int] = {}
    overtaken: set[tuple[str, int]] = set()
    for entry in entries:
        uuid, token = entry["job"], entry["token"]
        if "lost" in entry:
            under_way[uuid].discard(token)
            if (uuid, token) in overtaken and not entry["lost"]:
                yield f"{uuid} ran under a later claim while it ran under token {token}"
            continue
        if token <= last.get(uuid, -1):
            yield f"{uuid} began under token {token} after {last[uuid]}"
        last[uuid] = token
        overtaken |= {(uuid, earlier) for earlier in under_way[uuid]}
        under_way[uuid].add(token)


def _fires(entries: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Each fire time was posted once, and none is missing between the first and the last one of its schedule."""
    jobs: dict[tuple[str, float], set[str]] = defaultdict(set)
    for entry in entries:
        if entry.get("fire"):
            schedule, moment = entry["fire"]
            jobs[schedule, moment].add(entry["job"])
    for (schedule, moment), uuids in jobs.items():
        if len(uuids) > 1:
            yield f"{schedule} was posted {len(uuids)} times for {moment}"
    for schedule, found in itertools.groupby(sorted(jobs), key=lambda fire: fire[0]):
        moments = [moment for _, moment in found]
        missing = set(range(round(moments[0]), round(moments[-1]))) - {round(moment) for moment in moments}
        if missing:
            yield f"{schedule} was not posted for {sorted(missing)[:5]}"
