"""A board on etcd 3, through its JSON gateway."""

from jobboard.backends.etcd.backend import EtcdBackend

__all__ = ["EtcdBackend"]
