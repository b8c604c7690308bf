"""TaskFlow's configuration of its own boards, understood for ours."""

from __future__ import annotations

from typing import Any

import pytest
from taskflow.jobs import backends

from jobboard.taskflow.configuration import configured

REDIS = {"board": "jobboard+redis", "host": "h"}
ZOOKEEPER = {"board": "jobboard+zookeeper", "hosts": "a:1,b:2", "path": "/octavia"}
ETCD = {"board": "jobboard+etcd", "host": "h", "port": 23, "path": "octavia"}

CASES: list[tuple[dict[str, Any], str, str, dict[str, Any]]] = [
    ({"board": "jobboard", "uri": "redis://h/1"}, "taskflow", "redis://h/1", {}),
    ({"board": "jobboard", "uri": "sqlite:///a.db", "namespace": b"n", "ttl": 9}, "n", "sqlite:///a.db", {"expiry": 9}),
    ({"board": "jobboard+redis://u:p@h:1/2", "host": "h", "namespace": "n"}, "n", "redis://u:p@h:1/2", {}),
    (REDIS | {"namespace": "n", "socket_timeout": 3}, "n", "redis://h:6379/0", {"socket_timeout": 3}),
    (REDIS | {"port": "6380", "db": "2", "username": "u", "password": "p/@"}, "taskflow",
     "redis://u:p%2F%40@h:6380/2", {}),
    (REDIS | {"password": "p", "health_check_interval": 30, "retry_on_timeout": True, "encoding": "utf-8",
              "encoding_errors": "strict", "socket_connect_timeout": 1}, "taskflow", "redis://:p@h:6379/0", {}),
    (REDIS | {"ssl": False, "ssl_keyfile": None, "ssl_certfile": None, "ssl_ca_certs": None,
              "ssl_cert_reqs": "required", "sentinel": None, "sentinel_fallbacks": []}, "taskflow",
     "redis://h:6379/0", {}),
    (REDIS | {"ssl": "true", "ssl_ca_certs": "ca", "ssl_certfile": "c", "ssl_keyfile": "k"}, "taskflow",
     "rediss://h:6379/0", {"ssl_ca_certs": "ca", "ssl_certfile": "c", "ssl_keyfile": "k"}),
    ({"board": "jobboard+redis", "unix_socket_path": "/run/redis.sock"}, "taskflow",
     "unix:///run/redis.sock", {"db": 0}),
    (REDIS | {"port": 26379, "sentinel": "main", "sentinel_fallbacks": ["[::1]:26379", "b:1"], "password": "p",
              "sentinel_kwargs": {"username": "s", "password": "q", "ssl": "False"}}, "taskflow",
     "redis+sentinel://:p@h:26379,[::1]:26379,b:1/main/0", {"sentinel_username": "s", "sentinel_password": "q"}),
    (REDIS | {"sentinel": "main", "ssl": True, "ssl_ca_certs": "ca", "sentinel_kwargs": None}, "taskflow",
     "redis+sentinel://h:26379/main/0", {"ssl": True, "ssl_ca_certs": "ca"}),
    (REDIS | {"sentinel": "main", "ssl": True, "ssl_ca_certs": "ca", "ssl_certfile": "c", "ssl_keyfile": "k",
              "sentinel_kwargs": {"ssl": True, "ssl_ca_certs": "ca", "ssl_certfile": "c", "ssl_keyfile": "k",
                                  "ssl_cert_reqs": "required", "ssl_password": None, "health_check_interval": 9}},
     "taskflow", "redis+sentinel://h:26379/main/0",
     {"ssl": True, "ssl_ca_certs": "ca", "ssl_certfile": "c", "ssl_keyfile": "k"}),
    (REDIS | {"sentinel": "main", "sentinel_kwargs": {"ssl": False, "ssl_ca_certs": "ca"}}, "taskflow",
     "redis+sentinel://h:26379/main/0", {}),
    ({"board": "jobboard+zookeeper"}, "taskflow", "zookeeper://localhost:2181/taskflow/jobs", {}),
    (ZOOKEEPER | {"timeout": 4, "check_compatible": False, "read_only": False}, "taskflow",
     "zookeeper://a:1,b:2/octavia", {"session_timeout": 4}),
    (ZOOKEEPER | {"ttl": "9"}, "taskflow", "zookeeper://a:1,b:2/octavia", {"expiry": 9}),
    (ZOOKEEPER | {"hosts": ["a:1", "b:2"], "use_ssl": False, "keyfile": "k"}, "taskflow",
     "zookeeper://a:1,b:2/octavia", {}),
    (ZOOKEEPER | {"hosts": {"a": 1}, "use_ssl": "true", "ca": "c", "verify_certs": True}, "taskflow",
     "zookeeper://a:1/octavia", {"use_ssl": True, "ca": "c", "verify_certs": True}),
    (ZOOKEEPER | {"hosts": "a:1/chroot"}, "taskflow", "zookeeper://a:1/chroot/octavia", {}),
    ({"board": "jobboard+etcd"}, "taskflow", "etcd://localhost:2379", {}),
    (ETCD | {"ttl": 30, "timeout": 2, "api_path": "/v3/", "protocol": "http", "ca_cert": None}, "octavia",
     "etcd://h:23", {"expiry": 30, "timeout": 2, "api_path": "/v3/"}),
    (ETCD | {"protocol": "https", "ca_cert": "ca", "cert_key": "k", "cert_cert": "c"}, "octavia", "etcds://h:23",
     {"ca_cert": "ca", "cert_key": "k", "cert_cert": "c"}),
]  # fmt: skip


@pytest.mark.parametrize(("conf", "name", "uri", "options"), CASES)
def test_the_keys_of_taskflows_drivers_are_understood(
    conf: dict[str, Any], name: str, uri: str, options: dict[str, Any]
) -> None:
    before = dict(conf)
    found = configured(conf)
    assert (found.name, found.uri, found.options) == (name, uri, options)
    assert conf == before
    if uri.partition(":")[0] not in ("unix",) and "ca" not in str(options):
        # Certificates that are no files are refused; everything else makes a board.
        board = backends.fetch("any name", conf)
        assert (board.name, board.board.name, board.connected) == ("any name", name, False)


@pytest.mark.parametrize(
    ("conf", "advice"),
    [
        ({"board": "jobboard"}, "needs a uri"),
        (REDIS | {"sentinel": "main", "ssl": True, "sentinel_kwargs": {"ssl": False}}, "sentinel_kwargs"),
        *(
            (
                REDIS | {"sentinel": "main", "ssl": True, "sentinel_kwargs": {"ssl": True, key: value}},
                f"sentinel_kwargs: {key}: .* the same options",
            )
            for key, value in (
                ("ssl_ca_certs", "ca"),
                ("ssl_certfile", "c"),
                ("ssl_cert_reqs", "none"),
                ("socket_timeout", 3),
                ("colour", "red"),
            )
        ),
        (REDIS | {"port": "x"}, "port: 'x' is no number"),
        (REDIS | {"db": "x"}, "db: 'x' is no number"),
        (REDIS | {"ttl": "soon"}, "ttl: 'soon' is no number"),
        (ZOOKEEPER | {"handler": object()}, "handler"),
        (ZOOKEEPER | {"read_only": True}, "read_only"),
        (REDIS | {"colour": "red"}, "unknown option 'colour'"),
        (REDIS | {"retenton": 5}, "did you mean retention"),
        (REDIS | {"ttls": 5}, "did you mean ttl.* host, .* namespace, .* port, "),
        (ZOOKEEPER | {"paht": "/x"}, "did you mean path.* hosts, .* path, .* ttl, "),
        ({"board": "jobboard", "uri": "redis://h", "namespase": "x"}, "did you mean namespace.* ttl, uri"),
        (REDIS | {"ssl": True, "ssl_cert_reqs": "none"}, "tls_unverified"),
    ],
)
def test_what_can_not_be_meant_so_is_refused_with_advice(conf: dict[str, Any], advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        backends.fetch("any name", conf)


def test_a_uri_may_stand_in_the_place_of_the_driver() -> None:
    board = backends.fetch("any name", "jobboard+redis://u:secret@h:6380/3?namespace=n")
    assert board.board.name == "n"
    assert "secret" not in repr(board.board)
