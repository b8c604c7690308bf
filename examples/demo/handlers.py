"""What the demo's conductors run: the SHA-256 of a file."""

from __future__ import annotations

import hashlib

from jobboard.conductor import Broken, Handlers, RunningJob

NAME = "sha256"

handlers = Handlers()


@handlers.handler(NAME)
def sha256(job: RunningJob) -> str:
    """Return the digest of the file at ``path`` (bytes, since a file's name need not be text)."""
    try:
        with open(job.details["path"], "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        # What can't be read now won't be a second later.
        raise Broken(f"can't be read: {error.strerror or error}") from error
