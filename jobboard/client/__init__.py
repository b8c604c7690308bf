"""The client of a board's backend: opened and closed, asked until the answer is certain, and heard of events."""

from jobboard.client.client import BackendClient
from jobboard.client.reader import JobEnd, JobReader

__all__ = ["BackendClient", "JobEnd", "JobReader"]
