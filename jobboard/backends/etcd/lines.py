"""The heads of lines: etcd visits each key of a range, whatever its limit, so a long line is read to a known place."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.etcd.changing import Changing
from jobboard.backends.etcd.rows import Hint
from jobboard.backends.etcd.txn import Found, Op, scan, scan_prefix

#: A line with more jobs than this is read up to the place at which this many stood when it was last read as a whole.
_REACH = 500

#: How often a line is read at most until its first jobs are found.
_LOOKS = 4


class Lines(Changing):
    """Reads the first jobs of lines: all that stands before the known place, so the best are found for certain."""

    def _opened_anew(self) -> None:
        super()._opened_anew()
        #: The key up to which a long line is read; None: it is long, but the place is not known yet.
        self._reaches: dict[bytes, bytes | None] = {}

    def _first_of(self, lines: Sequence[bytes], count: int, more: Sequence[Op]) -> list[Found]:
        """Read the first ``count`` places of each line, settled, and ``more`` at the same moment."""
        found = self._read_lines(lines, count, more)
        orders = [
            kv.key.rpartition(b"/")[2] for part in found[: len(lines)] for kv in part.kvs if not Hint.of(kv.value)
        ]
        if orders:
            self._mend_places(orders)
            found = self._read_lines(lines, count, more)
        return found

    def _read_lines(self, lines: Sequence[bytes], count: int, more: Sequence[Op]) -> list[Found]:
        for is_last in (False,) * (_LOOKS - 1) + (True,):
            # Other threads may use up the known part as fast as it is read; then the last look reads the whole.
            reaches = [None if is_last else self._reaches.get(line) for line in lines]
            heads = [
                scan_prefix(line, count) if reach is None else scan(line, reach, count)
                for line, reach in zip(lines, reaches, strict=True)
            ]
            unknown = [
                line for line, reach in zip(lines, reaches, strict=True) if reach is None and line in self._reaches
            ]
            found = self._look([*heads, *more, *(scan_prefix(line, _REACH, keys_only=True) for line in unknown)])
            parts, places = found[: len(lines)], found[len(lines) + len(more) :]
            for line, place in zip(unknown, places, strict=True):
                self._reaches[line] = place.kvs[-1].key + b"\0" if place.more else None
            is_enough = True
            for line, reach, part in zip(lines, reaches, parts, strict=True):
                if reach is None:
                    self._learn_length(line, part)
                elif part.total < 2 * count:
                    # It is nearly used up: the next look goes to the end, and finds the next place.
                    self._reaches[line] = None
                    is_enough = is_enough and part.total >= count
            if is_enough:
                break
        return found[: len(lines) + len(more)]

    def _learn_length(self, line: bytes, part: Found) -> None:
        if part.total <= 2 * _REACH:
            self._reaches.pop(line, None)
        else:
            self._reaches.setdefault(line, None)
