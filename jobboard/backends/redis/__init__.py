"""Boards on Redis: one script per operation, one round trip per request."""

from jobboard.backends.redis.backend import RedisBackend, RedisClusterBackend, RedisSentinelBackend

__all__ = ["RedisBackend", "RedisClusterBackend", "RedisSentinelBackend"]
