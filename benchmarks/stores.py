"""The stores that are measured, by their names."""

from __future__ import annotations

from benchmarks.catalogue import Catalogue

STORES = Catalogue(
    {
        "memory": ("benchmarks.embedded_stores:MEMORY", ""),
        "sqlite-full": ("benchmarks.embedded_stores:SQLITE_FULL", ""),
        "sqlite-normal": ("benchmarks.embedded_stores:SQLITE_NORMAL", ""),
        "redis": ("benchmarks.redis_store:REDIS", "redis"),
        "postgresql": ("benchmarks.postgresql_store:POSTGRESQL", "postgresql"),
        "mariadb": ("benchmarks.mariadb_store:MARIADB", "mysql"),
        "zookeeper": ("benchmarks.zookeeper_store:ZOOKEEPER", "zookeeper"),
        "etcd": ("benchmarks.etcd_store:ETCD", "etcd"),
    }
)
