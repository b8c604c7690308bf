"""Which boards are in a store: all of them, whichever board asks, and on every server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from servers.durable_stores import STORES, running
from servers.redis_rights import USER, allow_least_rights
from servers.redis_servers import RedisCluster, RedisServer

from jobboard import BoardUnavailable, NotFound, fetch
from jobboard.operate.doctor import boards_of

pytestmark = pytest.mark.in_turn(2)

THREE = ["alpha", "default", "größe/{a}"]
MANY = [f"many-{number:03}" for number in range(250)]


@pytest.fixture(scope="module", params=[*STORES, "redis+cluster"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a store with three boards."""
    if request.param == "redis+cluster":
        with RedisCluster() as cluster:
            use(cluster.uri, *THREE)
            yield cluster.uri
        return
    with running(request.param, tmp_path_factory.mktemp(request.param)) as store:
        use(store.uri, *THREE)
        yield store.uri


def use(uri: str, *names: str) -> None:
    for name in names:
        with fetch(name, uri) as board:
            board.post("resize")


@pytest.mark.parametrize("name", [*THREE, "no such"])
def test_all_are_listed_whichever_board_asks(uri: str, name: str) -> None:
    found = boards_of(fetch(name, uri))
    assert [board for board in found if board not in MANY] == sorted(THREE)


def test_each_of_250_is_listed_and_one_that_is_missing_is_told_beside_them(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whether a busy machine has listed them within two seconds is not what is tested.
    monkeypatch.setattr("jobboard.client.client._LISTING_TIMEOUT", 60.0)
    use(uri, *MANY)
    assert boards_of(fetch("default", uri)) == sorted([*THREE, *MANY])
    with fetch("many-249", uri, create=False) as board:
        assert board.job_count == 1
    with pytest.raises(NotFound, match="no board 'many-250'.* 'alpha', 'default', .* and 233 more"):
        fetch("many-250", uri, create=False).connect(timeout=60)


@pytest.mark.parametrize("store", ["redis", "etcd"])
def test_a_list_that_is_not_complete_when_the_time_is_over_is_an_error(
    store: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with running(store, tmp_path_factory.mktemp(store)) as running_store:
        uri = running_store.uri
        use(uri, *THREE)
        if store == "redis":
            fill(uri)
        with pytest.raises(BoardUnavailable, match="not all boards were found before the time was over"):
            boards_of(fetch("default", uri), timeout=0)
        assert boards_of(fetch("default", uri)) == sorted(THREE)


def test_what_is_no_board_is_not_listed_on_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running("zookeeper", tmp_path_factory.mktemp("zookeeper")) as store:
        use(f"{store.uri}/taskflow/jobs", *THREE)
        use(f"{store.uri}/taskflow", "beside")
        assert boards_of(fetch("default", f"{store.uri}/taskflow/jobs")) == sorted(THREE)
        assert boards_of(fetch("default", f"{store.uri}/taskflow")) == ["beside"], "jobs is the path of the others"


@pytest.mark.parametrize("store", ["redis", "etcd"])
def test_a_board_that_was_only_opened_is_not_listed(store: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(store, tmp_path_factory.mktemp(store)) as running_store:
        uri = running_store.uri
        for name in ("alpha-typo", "size", "zeta"):
            with fetch(name, uri):
                pass
        use(uri, *THREE)
        assert boards_of(fetch("alpha-typo", uri)) == sorted(THREE)
        with pytest.raises(NotFound, match="no board 'size'"):
            fetch("size", uri, create=False).connect()


def fill(uri: str) -> None:
    """Put more keys beside the boards than one request looks through."""
    with redis.Redis.from_url(uri) as client:
        client.mset({f"another program's {number}": "" for number in range(5000)})


def test_who_may_not_look_at_all_keys_of_redis_is_told_what_is_missing() -> None:
    with RedisServer() as server:
        allow_least_rights(server)
        uri = server.uri_of(*USER)
        use(uri, *THREE)
        with pytest.raises(BoardUnavailable, match=r"scan"):
            boards_of(fetch("default", uri))
