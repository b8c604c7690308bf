"""The history of a board: one process looks at it every 10 seconds and keeps what it saw in logbooks on the board."""

from jobboard.operate.sampling.buckets import Bucket, Figures
from jobboard.operate.sampling.sampler import Sampler

__all__ = ["Bucket", "Figures", "Sampler"]
