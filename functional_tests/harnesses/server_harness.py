"""What the harnesses of all boards on servers share."""

from __future__ import annotations

from jobboard.testing import Harness

#: Bytes that are no posting.
GARBAGE = b"\xc1 no posting"


class ServerHarness(Harness):
    """A harness onto a server that runs already."""

    def __init__(self, uri: str) -> None:
        super().__init__()
        self._uri = uri

    def uri(self) -> str:
        return self._uri
