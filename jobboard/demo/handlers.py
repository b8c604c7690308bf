"""What the demo's conductors run: the SHA-256 of a file."""

from __future__ import annotations

import hashlib

from jobboard.conductor import Handlers, RunningJob

NAME = "sha256"

handlers = Handlers()


# One attempt: a file that can't be read now won't be read a second later. Attempts that ended with the death of their
# conductor don't fail here, and are taken over as long as the posting's own max_attempts lets them.
@handlers.handler(NAME, max_attempts=1)
def sha256(job: RunningJob) -> str:
    """Return the digest of the file at ``path`` (bytes, since a file's name need not be text)."""
    with open(job.details["path"], "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
