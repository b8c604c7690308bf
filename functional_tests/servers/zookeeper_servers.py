"""ZooKeeper servers of the tests' own: a single one, and an ensemble of three."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from jobboard.testing import eventually
from servers.base import HOST, RunningServer, free_port, program

_JAR = Path("/usr/share/java/zookeeper.jar")
#: What its TLS needs, and Debian's manifest forgets.
_NETTY = [_JAR.with_name(f"netty-{part}.jar") for part in ("codec", "resolver")]
#: Without a logger of its own the server says nothing at all.
_LOGGER = _JAR.with_name("slf4j-simple.jar")
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

#: In milliseconds; sessions last from twice to twenty times of it.
TICK = 300

#: A small heap and a quick start are worth more to a test than a fast server.
_JAVA = ["-Xms32m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
_SETTINGS = {
    "zookeeper.4lw.commands.whitelist": "*",
    "zookeeper.admin.enableServer": "false",
    "zookeeper.forceSync": "no",
    "zookeeper.preAllocSize": "1024",
    "org.slf4j.simpleLogger.defaultLogLevel": "warn",
    "org.slf4j.simpleLogger.showDateTime": "true",
    "org.slf4j.simpleLogger.dateTimeFormat": "HH:mm:ss.SSS",
}


class ZooKeeperServer(RunningServer):
    """One server.

    :param lines: further lines of its configuration file.
    :param heap: megabytes of its heap.
    :param durable: whether it writes through to its disk before it answers, as servers do by default.
    :param settings: further ones, as system properties.
    :param java: how its Java starts and runs.
    """

    def __init__(
        self,
        *lines: str,
        heap: int = 160,
        port: int | None = None,
        durable: bool = False,
        settings: Mapping[str, str] | None = None,
        java: Sequence[str] = _JAVA,
    ) -> None:
        super().__init__([])
        self.port = port or free_port()
        settings = {**_SETTINGS, "zookeeper.forceSync": "yes" if durable else "no", **(settings or {})}
        path = self.folder / "zoo.cfg"
        path.write_text(
            "\n".join(
                [
                    f"tickTime={TICK}",
                    f"dataDir={self.folder / 'data'}",
                    f"clientPort={self.port}",
                    f"clientPortAddress={HOST}",
                    "maxClientCnxns=0",
                    "autopurge.purgeInterval=0",
                    *lines,
                ]
            )
        )
        (self.folder / "data").mkdir()
        if not _JAR.exists():
            subprocess.run(["apt-get", "install", "-y", "-q", "zookeeper"], check=True, stdout=subprocess.DEVNULL)
        self.command = [
            program("java", "default-jre-headless"),
            *java,
            f"-Xmx{heap}m",
            *(f"-D{name}={value}" for name, value in settings.items()),
            "-cp",
            ":".join(map(str, (_JAR, *_NETTY, _LOGGER))),
            _MAIN,
            str(path),
        ]

    @property
    def place(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def uri(self) -> str:
        return f"zookeeper://{self.place}"

    def ask(self, word: str, timeout: float = 2.0) -> str:
        """Return the answer to a four-letter word; nothing if there is none."""
        try:
            with socket.create_connection((HOST, self.port), timeout) as line:
                line.sendall(word.encode())
                parts = []
                while part := line.recv(1 << 16):
                    parts.append(part)
        except OSError:
            return ""
        return b"".join(parts).decode()

    def figures(self) -> dict[str, str]:
        """Return what the server measures of itself."""
        pairs = (line.split("\t", 1) for line in self.ask("mntr").splitlines() if "\t" in line)
        return {name.removeprefix("zk_"): value for name, value in pairs}

    def answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        # A server that has just begun to listen may leave the first one who asks without an answer.
        return self.ask("ruok", 0.2) == "imok" and "server_state" in self.figures()

    def stop(self) -> None:
        # A virtual machine takes its time over an orderly end, and nothing here is worth it.
        if self._process is not None and self._process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        super().stop()


class ZooKeeperEnsemble:
    """Three servers, of which any two are enough."""

    def __init__(self) -> None:
        ports = [(free_port(), free_port(), free_port()) for _ in range(3)]
        members = [f"server.{id}={HOST}:{quorum}:{election}" for id, (_, quorum, election) in enumerate(ports, 1)]
        lines = [*members, "initLimit=20", "syncLimit=40"]
        # The boards of a whole contract, and the leader's last 500 proposals: with 96 MB it is full after 650 cases.
        self.nodes = [ZooKeeperServer(*lines, heap=256, port=client) for client, _, _ in ports]
        for id, node in enumerate(self.nodes, 1):
            (node.folder / "data" / "myid").write_text(str(id))

    @property
    def uri(self) -> str:
        return "zookeeper://" + ",".join(node.place for node in self.nodes)

    def leader(self) -> ZooKeeperServer:
        """Return the one that leads; waits until there is one."""
        return eventually(lambda: next((node for node in self.nodes if self._state_of(node) == "leader"), None))

    def followers(self) -> list[ZooKeeperServer]:
        """Return those that follow; waits until there are two."""
        return eventually(
            lambda: len(found := [node for node in self.nodes if self._state_of(node) == "follower"]) == 2 and found
        )

    def _state_of(self, node: ZooKeeperServer) -> str | None:
        return node.figures().get("server_state")

    def start(self) -> Self:
        try:
            for node in self.nodes:
                node.launch()
            self.until_whole()
        except BaseException:
            # Nobody else would ever stop them.
            self.stop()
            raise
        return self

    def story(self) -> str:
        """Return how each server is, and what it said last."""
        return "\n".join(
            f"{node.place} (status {node.process.poll()}):\n{(node.folder / 'log').read_text()[-6000:]}"
            for node in self.nodes
        )

    def until_whole(self) -> None:
        """Wait until all three work together."""
        eventually(
            lambda: sorted(str(self._state_of(node)) for node in self.nodes) == ["follower", "follower", "leader"],
            within=60,
        )

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
