"""One board over several backends, its shards."""

from jobboard.backends.shards.backend import ShardsBackend

__all__ = ["ShardsBackend"]
