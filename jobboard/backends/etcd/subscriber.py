"""One watch and one thread for all waiters and listeners of a client."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from jobboard.backends.etcd.errors import is_login_expired
from jobboard.backends.etcd.http_client import HttpClient, Stream
from jobboard.backends.etcd.txn import KeyValue, after, b64, kv_of
from jobboard.backends.thread_end import wait_for_thread
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.etcd")

#: One change of a watched key: the key as it is now, and whether that is gone.
KeyChange = tuple[KeyValue, bool]

_MIN_DELAY, _MAX_DELAY = 0.05, 2.0


class Subscriber:
    """Watches a range of keys; after a break it goes on where it broke off, or at the oldest revision that is left.

    :param on_changes: called with the changes of each revision, in their order, from one thread.
    :param on_gap: called when changes were missed for good.
    """

    def __init__(
        self,
        http: HttpClient,
        prefix: bytes,
        on_changes: Callable[[int, Sequence[KeyChange]], None],
        on_gap: Callable[[], None],
    ) -> None:
        self._http = http
        self._prefix = prefix
        self._on_changes, self._on_gap = on_changes, on_gap
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._stream: Stream | None = None
        self._is_subscribed = False
        self._error: Exception | None = None
        self._closed = False
        #: The first revision that is still to come; 0: the next one.
        self._next = 0
        self._thread = threading.Thread(target=self._run, name="jobboard-etcd-subscriber", daemon=True)
        self._thread.start()

    def wait_until_subscribed(self, timeout: float) -> None:
        """Return once nothing that happens from now on is missed.

        :raises BoardUnavailable: the watch can't be opened in this time.
        """
        with self._lock:
            self._error = None
            self._changed.wait_for(lambda: self._is_subscribed or self._closed or self._error is not None, timeout)
            if not self._is_subscribed:
                raise BoardUnavailable(f"can't watch: {self._error or 'no answer'}")

    def close(self, timeout: float) -> None:
        """End the thread and the connection."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()
            stream = self._stream
        if stream is not None:
            stream.end()
        wait_for_thread(self._thread, timeout)

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = _MIN_DELAY
        while not self._closed:
            try:
                self._listen()
            except Exception as error:
                # Go on after any error: nothing would wake waiters without this thread.
                if not isinstance(error, BoardUnavailable):
                    logger.exception("the watch failed")
                with self._lock:
                    was_subscribed, self._is_subscribed = self._is_subscribed, False
                    self._stream, self._error = None, error
                    self._changed.notify_all()
                    if self._closed:
                        return
                    if was_subscribed:
                        pause = _MIN_DELAY
                        self._http.is_reachable = False
                    logger.debug("the watch is gone: %s", error)
                    self._changed.wait_for(lambda: self._closed, pause)
                pause = min(2 * pause, _MAX_DELAY)

    def _listen(self) -> None:
        request: dict[str, Any] = {"key": b64(self._prefix), "range_end": b64(after(self._prefix))}
        if self._next:
            request["start_revision"] = str(self._next)
        stream = self._http.stream("/watch", {"create_request": request})
        with self._lock:
            self._stream = stream
            if self._closed:
                stream.end()
        for result in stream:
            if self._http.login.has_user and is_login_expired(str(result.get("cancel_reason"))):
                # etcd refuses a login only after the watch has begun, so only this place notices.
                stream.end()
                self._http.login.renew(stream.token)
                with self._lock:
                    self._is_subscribed = False
                    self._changed.wait_for(lambda: self._closed, _MIN_DELAY)
                return
            self._take(result)

    def _take(self, result: dict[str, Any]) -> None:
        # The server leaves the revision out of the answer that ends a watch.
        revision = int(result["header"].get("revision", 0))
        if oldest := int(result.get("compact_revision", 0)):
            # Changes are lost, since older revisions can't be read any more: every waiter has to look.
            self._next = max(oldest, self._next + 1)
            self._on_gap()
            raise BoardUnavailable("the revisions that were missed are compacted")
        if result.get("canceled"):
            raise BoardUnavailable(f"the watch was cancelled: {result.get('cancel_reason', 'without a reason')}")
        if result.get("created"):
            if revision + 1 < self._next:
                self._check_not_set_back()
            self._next = self._next or revision + 1
            # Set before waiters learn that the watch is open: one that looks from then on need not look twice.
            self._on_gap()
            with self._lock:
                self._is_subscribed = True
                self._changed.notify_all()
            return
        by_revision: dict[int, list[KeyChange]] = {}
        for event in result.get("events", ()):
            kv = kv_of(event["kv"])
            by_revision.setdefault(kv.modified, []).append((kv, event.get("type") == "DELETE"))
        for at, seen in by_revision.items():
            self._next = at + 1
            self._on_changes(at, seen)

    def _check_not_set_back(self) -> None:
        """Raise if the store is at an earlier revision than this watch was, and let the next one begin there.

        A member may be behind the others, and tells of what is missing as soon as it knows it. If none knows more, the
        store was restored from a backup, and would tell of nothing until it had come as far as it was.
        """
        read = self._http.call("/kv/range", {"key": b64(self._prefix), "count_only": True}, changes=False)
        reached = int(read["header"]["revision"])
        if reached + 1 < self._next:
            self._next = reached + 1
            raise BoardUnavailable("the store has gone back to an earlier revision; was it restored from a backup?")
