"""Redis servers of the tests' own: a single one, a Cluster of three primaries, a primary behind a Sentinel."""

from __future__ import annotations

from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from jobboard.testing import eventually
from servers.base import HOST, RunningServer, free_port, program


class RedisServer(RunningServer):
    """One ``redis-server``, or another executable; ``options`` are those of its configuration file."""

    def __init__(
        self, options: dict[str, str] | None = None, port: int | None = None, executable: str | None = None
    ) -> None:
        self.port = port or free_port()
        super().__init__([])
        given = {
            "port": str(self.port),
            "bind": HOST,
            "save": "",
            "enable-debug-command": "local",
            # A replica's first copy begins at once.
            "repl-diskless-sync-delay": "0",
            **(options or {}),
        }
        arguments = [part for option, value in given.items() for part in (f"--{option}", *_words(option, value))]
        self.command = [executable or program("redis-server", "redis-server"), *arguments]

    @property
    def uri(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def uri_of(self, user: str, password: str) -> str:
        return f"redis://{user}:{password}@{HOST}:{self.port}/0"

    def client(self, **options: Any) -> redis.Redis:
        """Return a plain client."""
        return plain_client(self.port, **options)

    def follow(self, primary: RedisServer) -> None:
        """Be a replica of this server from the next start on."""
        if "--replicaof" in self.command:
            index = self.command.index("--replicaof")
            del self.command[index : index + 3]
        self.command += ["--replicaof", HOST, str(primary.port)]

    def answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        with self.client() as client:
            try:
                return bool(client.ping())
            except redis.AuthenticationError:
                return True
            except (redis.ConnectionError, redis.TimeoutError):
                return False


def plain_client(port: int, **options: Any) -> redis.Redis:
    """Return a client that says at once what fails; by itself it would try again for seconds."""
    return redis.Redis(host=HOST, port=port, socket_timeout=20, retry=Retry(NoBackoff(), 0), **options)


def _follows(client: redis.Redis, primary: str) -> bool:
    """Make a node of a Cluster the replica of another one, which it must have heard of."""
    try:
        return bool(client.execute_command("CLUSTER", "REPLICATE", primary))
    except redis.ResponseError:
        return False


def _words(option: str, value: str) -> list[str]:
    return [value] if option == "save" else value.split()


class RedisCluster:
    """Three primaries that share the slots; ``options`` are further ones of each."""

    def __init__(self, options: dict[str, str] | None = None) -> None:
        self._options = {"cluster-enabled": "yes", "cluster-node-timeout": "2000", **(options or {})}
        self.nodes = [self._new_node() for _ in range(3)]

    def _new_node(self) -> RedisServer:
        return RedisServer(self._options, free_port(10_000))

    def add_replica(self, primary: RedisServer) -> RedisServer:
        """Start one more node, which replaces this one when it fails."""
        replica = self._new_node().start()
        self.nodes.append(replica)
        with primary.client() as client, replica.client() as other:
            own = client.execute_command("CLUSTER", "MYID").decode()
            other.execute_command("CLUSTER", "MEET", HOST, primary.port)
            eventually(lambda: _follows(other, own))
            eventually(lambda: other.info("replication").get("master_link_status") == "up")
        return replica

    @property
    def uri(self) -> str:
        return "redis+cluster://" + ",".join(f"{HOST}:{node.port}" for node in self.nodes)

    def __enter__(self) -> Self:
        for node in self.nodes:
            node.start()
        clients = [node.client() for node in self.nodes]
        for number, client in enumerate(clients):
            first, end = 16384 * number // 3, 16384 * (number + 1) // 3
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in self.nodes[1:]:
            clients[0].execute_command("CLUSTER", "MEET", HOST, node.port)
        for client in clients:
            eventually(lambda client=client: client.cluster("INFO")["cluster_state"] == "ok")
            client.close()
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.stop()


class RedisSentinel(RunningServer):
    """A primary, a replica, and the Sentinel that watches them.

    :param options: further ones of all servers.
    :param followers: how many further replicas there are, none of which a failover makes the primary.
    """

    service = "jobs"

    def __init__(self, options: dict[str, str] | None = None, followers: int = 0) -> None:
        super().__init__([])
        self.port = free_port()
        self.primary = RedisServer(options)
        following = {**(options or {}), "replicaof": f"{HOST} {self.primary.port}"}
        self.replica = RedisServer(following)
        self.followers = [RedisServer({**following, "replica-priority": "200"}) for _ in range(followers)]
        self.command = [program("redis-server", "redis-server"), str(self.folder / "sentinel.conf"), "--sentinel"]

    @property
    def uri(self) -> str:
        return f"redis+sentinel://{HOST}:{self.port}/{self.service}/0"

    def start(self) -> Self:
        for server in (self.primary, self.replica, *self.followers):
            server.start()
        (self.folder / "sentinel.conf").write_text(
            f"port {self.port}\nbind {HOST}\n"
            f"sentinel monitor {self.service} {HOST} {self.primary.port} 1\n"
            # Failovers are asked for; a busy machine must not be one.
            f"sentinel down-after-milliseconds {self.service} 30000\n"
            f"sentinel failover-timeout {self.service} 2000\n"
        )
        super().start()
        with self.client() as client:
            eventually(lambda: len(client.sentinel_slaves(self.service)) == 1 + len(self.followers))
        for server in (self.replica, *self.followers):
            with server.client() as client:
                eventually(lambda client=client: client.info("replication").get("master_link_status") == "up")
        return self

    def client(self) -> redis.Redis:
        return plain_client(self.port)

    def answers(self) -> bool:
        with self.client() as client:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False

    def fail_over(self) -> None:
        """Make the replica the primary, at once."""
        with self.client() as client:
            eventually(lambda: self._is_failing_over(client))
            eventually(lambda: client.sentinel_get_master_addr_by_name(self.service)[1] == self.replica.port)

    def kill_primary(self) -> None:
        """Kill the primary, make the replica one, and start the killed one again as its replica."""
        self.primary.kill()
        self.fail_over()
        self.primary, self.replica = self.replica, self.primary
        self.replica.follow(self.primary)
        self.replica.start()
        with self.replica.client() as client:
            eventually(lambda: client.info("replication").get("master_link_status") == "up", within=60)

    def _is_failing_over(self, client: redis.Redis) -> bool:
        try:
            return bool(client.execute_command("SENTINEL", "FAILOVER", self.service))
        except redis.ResponseError:
            return False

    def stop(self) -> None:
        super().stop()
        for server in (*self.followers, self.replica, self.primary):
            server.stop()
