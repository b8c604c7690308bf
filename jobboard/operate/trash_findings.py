"""What is said of the trash of a board: of jobs that others wait for, and of the rest by its name; each job once."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from jobboard.backends.reasons import MISSED
from jobboard.naming import named
from jobboard.operate.failing import Failures
from jobboard.operate.held_up import FailedParent
from jobboard.operate.missed import Missed
from jobboard.operate.overview import NameOverview
from jobboard.operate.restoring import way_back
from jobboard.operate.trash import TrashGroup, kind_of_reason
from jobboard.text import in_one_line

#: How many jobs with one cause are named, and how much of a reason is shown.
MAX_NAMED, _MAX_REASON = 3, 200


def causes_of(parents: Iterable[FailedParent]) -> list[list[FailedParent]]:
    """Return those together that are of one name and one kind of reason; one whose key is taken alone.

    What brings the others back would be refused for that one.
    """
    causes: dict[tuple[str, ...], list[FailedParent]] = {}
    for parent in parents:
        alone = () if parent.holder is None else (parent.uuid,)
        causes.setdefault((parent.name, kind_of_reason(parent.reason), *alone), []).append(parent)
    return list(causes.values())


def told_parent(parent: FailedParent) -> tuple[str, str]:
    """Say how many jobs wait for one in the trash, and what brings it back."""
    taken, cure = way_back(parent.uuid, parent.holder)
    cure += " --with-children" * parent.has_missed
    return f"{_waiting([parent])} for {named(parent)}, which is in the trash{_reason(parent)}. {taken}".rstrip(), cure


def told_parents(parents: Sequence[FailedParent], has_more: bool) -> tuple[str, str]:
    """Say the same of several that are one cause.

    :param has_more: whether there may be more of them, which were not read.
    """
    name, kind = parents[0].name, kind_of_reason(parents[0].reason)
    listed = [*map(named, parents[:MAX_NAMED])]
    listed += [f"and {len(parents) - MAX_NAMED} more"] if len(parents) > MAX_NAMED else []
    command = shlex.join(["jobboard", "restore", "--job-name", name, "--reason-kind", kind])
    which = f"{len(parents)}{' or more' * has_more} jobs named {name!r}, which are in the trash{_reason(parents[0])}"
    cure = f"Once the cause is mended, bring all such jobs back with: {command}"
    if any(parent.has_missed for parent in parents):
        late = shlex.join(["jobboard", "restore", "--reason-kind", kind_of_reason(MISSED)])
        cure += f", and then what had not begun in time with: {late}"
    return f"{_waiting(parents)} for {which}. These are {', '.join(listed)}.", cure


def told_not_begun(missed: Sequence[Missed]) -> tuple[str, str]:
    """Say of jobs that had not begun in time, for other reasons than those that are told, what they are."""
    listed = [*map(named, missed[:MAX_NAMED])]
    listed += [f"and {len(missed) - MAX_NAMED} more"] if len(missed) > MAX_NAMED else []
    is_one = len(missed) == 1
    which = "1 job is" if is_one else f"{len(missed)} jobs are"
    late = "had not begun by the moment that start_by gives"
    text = f"{which} in the trash that {late}, and still wait{'s' * is_one} for others: {', '.join(listed)}."
    return text, f"For which ones says: jobboard why {missed[0].uuid}"


def _waiting(parents: Sequence[FailedParent]) -> str:
    number = len(frozenset[str]().union(*(parent.waiting for parent in parents)))
    has_more = any(parent.has_more for parent in parents)
    is_one, or_more = number == 1 and not has_more, " or more" * has_more
    further = f", and what waits for {'it' if is_one else 'them'}," if any(one.is_deep for one in parents) else ""
    return f"{number}{or_more} job{'s' * (not is_one)}{further} wait{'s' * is_one}"


def _reason(parent: FailedParent) -> str:
    return f": {in_one_line(parent.reason)}" if parent.reason else ""


def told_trash(
    names: Iterable[NameOverview],
    groups: Sequence[TrashGroup],
    parents: Iterable[FailedParent | Missed],
    failing: Iterable[Failures],
) -> Iterator[tuple[str, str, str]]:
    """Yield a name, sentences, and what to do, for each that has jobs in the trash beside these.

    :param parents: jobs in the trash that are told of.
    :param failing: names of which it is told that they fail. If all that was read of one has failed lately, what was
        not read is taken for the same.
    """
    told: dict[str, frozenset[str]] = {one.name: one.trashed for one in failing}
    failed = {name for name, uuids in told.items() if uuids}
    for parent in parents:
        told[parent.name] = told.get(parent.name, frozenset()) | {parent.uuid}
    for name in names:
        known, own = told.get(name.name, ()), [group for group in groups if group.name == name.name]
        is_all = name.name in failed and len(known) >= sum(group.jobs for group in own)
        if (left := name.numbers.trashed - len(known)) > 0 and not is_all:
            jobs = f"{left} {'more ' if known else ''}job{'s' * (left != 1)} named {name.name!r}"
            see = f"jobboard trashed --job-name {shlex.quote(name.name)}"
            # What most of them have failed with is told already.
            why = "" if name.name in failed else _most_often(own, name.numbers.trashed)
            yield name.name, f"{jobs} in the trash.{why}", f"Restore or purge them; see: {see}"


def _most_often(groups: Sequence[TrashGroup], trashed: int) -> str:
    """Say the reason of most jobs of a name, as far as they were read: the largest group comes first."""
    if not groups:
        return ""
    first, read = groups[0], sum(group.jobs for group in groups)
    example = in_one_line(first.example.strip() or first.kind)[:_MAX_REASON]
    if first.jobs == trashed:
        return f" The reason: {example}."
    return f" Most often ({first.jobs} of {read} that were read): {example}."
