"""From TaskFlow's configuration of its Redis, ZooKeeper and etcd boards to ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from jobboard.backends.loading import UnknownOption
from jobboard.backends.options import truth

#: What TaskFlow's drivers take and a board does by itself: it repeats requests, checks the server's version, encodes.
_NEEDLESS = {
    "redis": ("encoding", "encoding_errors", "health_check_interval", "retry_on_timeout", "socket_connect_timeout"),
    "zookeeper": ("check_compatible", "command_retry", "connection_retry"),
    "etcd": (),
}
#: What TaskFlow's SQL persistence takes, for pools of connections that a board has not.
_NEEDLESS_FOR_BOOKS = ("max_pool_size", "max_overflow", "pool_timeout", "idle_timeout", "max_retries")
#: What tells where the board is, in the place of a URI.
_PLACE = {
    "redis": ("host", "port", "username", "password", "db", "ssl", "unix_socket_path", "namespace"),
    "zookeeper": ("hosts", "path", "timeout", "use_ssl"),
    "etcd": ("host", "port", "path", "protocol"),
    "": ("uri", "namespace"),
}
_TLS = {
    "redis": ("ssl_keyfile", "ssl_certfile", "ssl_cert_reqs", "ssl_ca_certs", "ssl_check_hostname", "ssl_password"),
    "zookeeper": ("keyfile", "keyfile_password", "certfile", "ca", "verify_certs", "check_hostname"),
    "etcd": ("ca_cert", "cert_key", "cert_cert"),
}


@dataclass(slots=True)
class Configured:
    """Arguments of :func:`jobboard.fetch`: the board's name, where it is, and options."""

    name: str
    uri: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)
    #: Of which of TaskFlow's drivers the keys were; empty for a URI.
    driver: str = ""

    @property
    def place(self) -> str:
        """What two boards that share their jobs have the same."""
        return f"{self.name} {self.uri}"


def configured(conf: Mapping[str, Any], driver: str = "board") -> Configured:
    """Understand TaskFlow's configuration.

    :param conf: ``{"board": "jobboard", "uri": ...}``, or ``{"board": "jobboard+redis", ...}`` (``+zookeeper``,
        ``+etcd``) with the keys of TaskFlow's driver of that name. Options of :func:`jobboard.fetch` may stand beside.
    :param driver: the key that has the driver's name.
    :raises ValueError: there is no store in it, or a value can't be meant so.
    """
    given = {key: value for key, value in conf.items() if value is not None}
    kind, _, place = str(given.pop(driver, "")).partition("://")
    if (ttl := given.pop("ttl", None)) is not None:
        given["expiry"] = _number("ttl", ttl, float)
    if driver == "connection":
        for key in _NEEDLESS_FOR_BOOKS:
            given.pop(key, None)
    uri = given.pop("uri", None)
    if uri is None and place and "+" in kind:
        # TaskFlow has taken the URI apart, has put its query into the dict, and has lost its path.
        uri = f"{kind.partition('+')[2]}://{place.partition('?')[0]}"
        for key in ("username", "password", "host", "hostname", "port"):
            given.pop(key, None)
    if uri is not None:
        return Configured(_namespace(given), str(uri), given)
    store = kind.partition("+")[2]
    if store not in _STORES:
        raise ValueError(
            f'{driver}: "jobboard" needs a uri, such as redis://host:6379/0; or write {driver}: "jobboard+redis",'
            f' "jobboard+zookeeper" or "jobboard+etcd" before the keys of TaskFlow\'s own driver'
        )
    for key in _NEEDLESS[store]:
        given.pop(key, None)
    found = _STORES[store](given)
    found.driver = store
    return found


@contextmanager
def naming_keys(wanted: Configured) -> Iterator[None]:
    """Name the keys of the configuration beside the board's options where an option is refused."""
    try:
        yield
    except UnknownOption as error:
        raise UnknownOption(error.option, error.scheme, {*error.known, *_PLACE[wanted.driver], "ttl"}) from None


def _namespace(given: dict[str, Any]) -> str:
    """Take out what TaskFlow's boards share or don't share jobs by; their name is no part of it."""
    namespace = given.pop("namespace", None)
    if namespace is None:
        namespace = given.pop("path", "taskflow")
    text = namespace.decode() if isinstance(namespace, bytes) else str(namespace)
    return text.strip("/") or "taskflow"


def _redis(given: dict[str, Any]) -> Configured:
    tls = truth(given.pop("ssl", False))
    _keep_tls("redis", given, tls)
    service, socket, database = (
        given.pop("sentinel", None),
        given.pop("unix_socket_path", None),
        _number("db", given.pop("db", 0), int),
    )
    fallbacks, of_sentinel = given.pop("sentinel_fallbacks", []), given.pop("sentinel_kwargs", {})
    if service is not None:
        hosts = [_host(given, 26379), *fallbacks]
        given |= _sentinel_options(of_sentinel, tls, given)
        if tls:
            given["ssl"] = True
        uri = f"redis+sentinel://{_login(given)}{','.join(hosts)}/{quote(str(service), safe='')}/{database}"
    elif socket is not None:
        uri = f"unix://{_login(given)}{quote(str(socket))}"
        given["db"] = database
        _host(given, 0)
    else:
        uri = f"redis{'s' if tls else ''}://{_login(given)}{_host(given, 6379)}/{database}"
    return Configured(_namespace(given), uri, given)


def _sentinel_options(conf: Mapping[str, Any] | None, tls: bool, servers: Mapping[str, Any]) -> dict[str, Any]:
    """TaskFlow may reach the Sentinels otherwise than the servers; a board reaches both alike, but for the login."""
    of_sentinel = {key: value for key, value in (conf or {}).items() if value is not None}
    if truth(of_sentinel.pop("ssl", tls)) != tls:
        raise ValueError("sentinel_kwargs: a board uses TLS both for the Sentinels and the servers, or for neither")
    _keep_tls("redis", of_sentinel, tls)
    login = {f"sentinel_{key}": of_sentinel.pop(key) for key in ("username", "password") if key in of_sentinel}
    same = {"ssl_cert_reqs": "required", "ssl_check_hostname": True, **servers}
    others = sorted(
        key for key, value in of_sentinel.items() if key not in _NEEDLESS["redis"] and same.get(key) != value
    )
    if others:
        raise ValueError(
            f"sentinel_kwargs: {', '.join(others)}: a board reaches Sentinels and servers with the same options; "
            "write them beside sentinel_kwargs, with one value for both"
        )
    return login


def _zookeeper(given: dict[str, Any]) -> Configured:
    if truth(given.pop("read_only", False)):
        raise ValueError("read_only: a board writes")
    if given.pop("handler", None) is not None:
        raise ValueError("handler: a board needs kazoo's threads; leave it out")
    tls = truth(given.pop("use_ssl", False))
    _keep_tls("zookeeper", given, tls)
    if tls:
        given["use_ssl"] = True
    if (timeout := given.pop("timeout", None)) is not None:
        given["session_timeout"] = timeout
    hosts = "" if "client" in given else _zookeeper_hosts(given.pop("hosts", "localhost:2181"))
    place, _, chroot = hosts.partition("/")
    # TaskFlow's own znodes begin with "job" and with dots: both may lie in one path.
    path = "/" + str(given.pop("path", "/taskflow/jobs")).strip("/")
    uri = f"zookeeper://{_login(given)}{place}{'/' + chroot.strip('/') if chroot else ''}{quote(path)}"
    return Configured(str(given.pop("namespace", "taskflow")), uri, given)


def _zookeeper_hosts(hosts: Any) -> str:
    if isinstance(hosts, Mapping):
        return ",".join(f"{host}:{port}" for host, port in hosts.items())
    return hosts.strip() if isinstance(hosts, str) else ",".join(str(host) for host in hosts)


def _etcd(given: dict[str, Any]) -> Configured:
    tls = str(given.pop("protocol", "http")) == "https"
    _keep_tls("etcd", given, tls)
    uri = f"etcd{'s' if tls else ''}://{_login(given)}{_host(given, 2379)}"
    return Configured(_namespace(given), uri, given)


def _keep_tls(store: str, given: dict[str, Any], tls: bool) -> None:
    """As TaskFlow and its users do, ignore what TLS would take where there is none."""
    if not tls:
        for key in _TLS[store]:
            given.pop(key, None)


def _login(given: dict[str, Any]) -> str:
    parts = [str(given.pop(key, "")) for key in ("username", "password")]
    return f"{':'.join(quote(part, safe='') for part in parts)}@" if any(parts) else ""


def _host(given: dict[str, Any], port: int) -> str:
    host = str(given.pop("host", None) or given.pop("hostname", None) or "localhost")
    given.pop("hostname", None)
    return f"{'[' + host + ']' if ':' in host else host}:{_number('port', given.pop('port', port), int)}"


def _number(key: str, value: Any, kind: type[int] | type[float]) -> int | float:
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise ValueError(f"{key}: {value!r} is no number") from None


_STORES: Mapping[str, Callable[[dict[str, Any]], Configured]] = {
    "etcd": _etcd,
    "redis": _redis,
    "zookeeper": _zookeeper,
}
