"""Boards on ZooKeeper: every change is one transaction, and a listing that is kept in step by a log."""

from jobboard.backends.zookeeper.backend import ZooKeeperBackend

__all__ = ["ZooKeeperBackend"]
