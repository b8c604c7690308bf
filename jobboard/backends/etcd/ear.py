"""Hearing what changes: one watch and one thread for all who wait and listen at one client."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from jobboard.backends.etcd.faults import is_login_over
from jobboard.backends.etcd.gateway import Gateway, Stream
from jobboard.backends.etcd.txn import KeyValue, after, b64, kv_of
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.etcd")

#: One change of a watched key: the key as it is now, and whether that is gone.
Seen = tuple[KeyValue, bool]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


class Ear:
    """Watches a range of keys; after a break from the revision where it broke off, or the oldest there is.

    :param hear: told of the changes of each revision, in their order, from one thread.
    :param missed: called when some of them can't be told any more.
    """

    def __init__(
        self, gateway: Gateway, prefix: bytes, hear: Callable[[int, Sequence[Seen]], None], missed: Callable[[], None]
    ) -> None:
        self._gateway = gateway
        self._prefix = prefix
        self._hear, self._missed = hear, missed
        self._changed = threading.Condition()
        self._stream: Stream | None = None
        self._is_hearing = False
        self._fault: Exception | None = None
        self._closed = False
        #: The first revision that was not told yet; 0: whatever comes next.
        self._next = 0
        self._thread = threading.Thread(target=self._run, name="jobboard-etcd-ear", daemon=True)
        self._thread.start()

    def wait_until_hearing(self, patience: float) -> None:
        """Return once nothing that happens from now on is missed.

        :raises BoardUnavailable: that can't be brought about.
        """
        with self._changed:
            self._fault = None
            self._changed.wait_for(lambda: self._is_hearing or self._closed or self._fault is not None, patience)
            if not self._is_hearing:
                raise BoardUnavailable(f"can't watch: {self._fault or 'no answer'}")

    def close(self, patience: float) -> None:
        """End the thread and the connection."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            stream = self._stream
        if stream is not None:
            stream.end()
        if self._thread is not threading.current_thread():
            self._thread.join(patience)

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._closed:
            try:
                self._listen()
            except Exception as error:
                # Whatever it was: those who wait would never be woken without this thread.
                if not isinstance(error, BoardUnavailable):
                    logger.exception("the watch failed")
                with self._changed:
                    was_hearing, self._is_hearing = self._is_hearing, False
                    self._stream, self._fault = None, error
                    self._changed.notify_all()
                    if self._closed:
                        return
                    if was_hearing:
                        pause = _FIRST_PAUSE
                        self._gateway.answers = False
                    logger.debug("the watch is gone: %s", error)
                    self._changed.wait_for(lambda: self._closed, pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _listen(self) -> None:
        request: dict[str, Any] = {"key": b64(self._prefix), "range_end": b64(after(self._prefix))}
        if self._next:
            request["start_revision"] = str(self._next)
        stream = self._gateway.stream("/watch", {"create_request": request})
        with self._changed:
            self._stream = stream
            if self._closed:
                stream.end()
        for result in stream:
            if is_login_over(str(result.get("cancel_reason"))):
                # A watch is refused only after it has begun, so that no other place notices.
                stream.end()
                self._gateway.log_in()
                with self._changed:
                    self._is_hearing = False
                    self._changed.wait_for(lambda: self._closed, _FIRST_PAUSE)
                return
            self._take(result)

    def _take(self, result: dict[str, Any]) -> None:
        # The server leaves the revision out of the answer that ends a watch.
        revision = int(result["header"].get("revision", 0))
        if oldest := int(result.get("compact_revision", 0)):
            # What was before is not to be had any more, so whoever waits has to look for himself.
            self._next = max(oldest, self._next + 1)
            self._missed()
            raise BoardUnavailable("the revisions that were missed are compacted")
        if result.get("canceled"):
            raise BoardUnavailable(f"the watch was cancelled: {result.get('cancel_reason', 'without a reason')}")
        if result.get("created"):
            self._next = self._next or revision + 1
            with self._changed:
                self._is_hearing = True
                self._changed.notify_all()
            self._missed()
            return
        by_revision: dict[int, list[Seen]] = {}
        for event in result.get("events", ()):
            kv = kv_of(event["kv"])
            by_revision.setdefault(kv.modified, []).append((kv, event.get("type") == "DELETE"))
        for at, seen in by_revision.items():
            self._next = at + 1
            self._hear(at, seen)
