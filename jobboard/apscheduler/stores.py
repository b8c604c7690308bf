"""Reads the job stores of APScheduler 3, and writes nothing to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jobboard.apscheduler.pickles import MAX_BYTES
from jobboard.backends.address import Address
from jobboard.errors import BoardUnavailable, MissingExtra

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Engine

#: Of one store; more is more likely another program's data.
MAX_JOBS = 100_000
_PAGE = 100
_TIMEOUT = 10

#: A job's id and its pickle; None if that is larger than any job's.
Stored = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class JobStore:
    """The jobs of a store: how many there are, and their pickles in pages."""

    count: int
    jobs: Iterator[Stored]


@contextmanager
def open_store(uri: str, name: str | None = None) -> Iterator[JobStore]:
    """Read a job store of APScheduler 3.

    :param uri: ``redis://``, ``zookeeper://host:port/path``, ``mongodb://``, or a URL of SQLAlchemy's.
    :param name: of the table, the key, the path or the collection if it is not APScheduler's own.
    :raises MissingExtra: the client library of the store is not installed.
    :raises BoardUnavailable: the store can't be read.
    :raises ValueError: the URI is wrong, or there is no such store.
    """
    scheme = urlsplit(uri).scheme.partition("+")[0]
    if "://" not in uri or not scheme:
        raise ValueError("the URI of a job store looks like sqlite:///jobs.sqlite or redis://host:6379/0")
    with _READERS.get(scheme, _sql)(uri, name) as store:
        if store.count > MAX_JOBS:
            raise ValueError(f"the store has {store.count} jobs; at most {MAX_JOBS} are read")
        yield store


@contextmanager
def _sql(uri: str, name: str | None) -> Iterator[JobStore]:
    import sqlalchemy as sql
    from sqlalchemy.exc import SQLAlchemyError

    engine = _sql_engine(uri)
    schema, _, table = (name or "apscheduler_jobs").rpartition(".")
    id: Any = sql.column("id")
    state: Any = sql.column("job_state")
    jobs = sql.table(table, id, state, schema=schema or None)
    size = sql.func.length(state)
    page = sql.select(id, sql.case((size <= MAX_BYTES, state), else_=None)).order_by(id).limit(_PAGE)
    try:
        with engine.connect() as connection:

            def pages() -> Iterator[Stored]:
                rows = connection.execute(page).all()
                for _ in range(MAX_JOBS // _PAGE + 1):
                    yield from ((str(row[0]), None if row[1] is None else bytes(row[1])) for row in rows)
                    if len(rows) < _PAGE:
                        return
                    rows = connection.execute(page.where(id > rows[-1][0])).all()

            yield JobStore(
                int(connection.execute(sql.select(sql.func.count()).select_from(jobs)).scalar_one()), pages()
            )
    except SQLAlchemyError as error:
        fault = getattr(error, "orig", None) or error
        raise BoardUnavailable(f"the job store can't be read: {type(fault).__name__}: {fault}") from None
    finally:
        engine.dispose()


def _sql_engine(uri: str) -> Engine:
    import sqlalchemy as sql
    from sqlalchemy.exc import ArgumentError

    try:
        url = sql.make_url(uri)
        url.get_dialect()
    except (ArgumentError, ValueError) as error:
        # Its text may repeat the URL with a password.
        raise ValueError(f"the job store's URI is none that SQLAlchemy reads: {type(error).__name__}") from None
    url = _with_our_driver(url)
    try:
        return sql.create_engine(url, connect_args=_CONNECT_ARGUMENTS.get(url.drivername, {}))
    except ImportError as error:
        raise MissingExtra(f"this job store needs another Python package: {error}") from None


#: With them no request to a server that does not answer waits for ever.
_CONNECT_ARGUMENTS: dict[str, dict[str, Any]] = {
    "postgresql+psycopg": {"connect_timeout": _TIMEOUT, "options": f"-c statement_timeout={_TIMEOUT * 1000}"},
    "mysql+pymysql": {"connect_timeout": _TIMEOUT, "read_timeout": _TIMEOUT},
    "mariadb+pymysql": {"connect_timeout": _TIMEOUT, "read_timeout": _TIMEOUT},
}


def _with_our_driver(url: URL) -> URL:
    """Return the URL with the driver that our extras install, if it names none."""
    if url.get_backend_name() == "sqlite":
        if not url.database or not Path(url.database).is_file():
            raise ValueError(f"there is no file {url.database!r} with a job store")
        return url
    drivers = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}
    return url.set(drivername=drivers.get(url.drivername, url.drivername))


@contextmanager
def _redis(uri: str, name: str | None) -> Iterator[JobStore]:
    redis = _library("redis", "jobboard[redis]")
    key = name or "apscheduler.jobs"
    client = redis.Redis.from_url(uri, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT)

    def states(ids: Sequence[bytes]) -> Iterator[Stored]:
        sizes = _each(client, "hstrlen", key, ids)
        small = iter(_each(client, "hget", key, [id for id, size in zip(ids, sizes, strict=True) if size <= MAX_BYTES]))
        for id, size in zip(ids, sizes, strict=True):
            data = next(small) if size <= MAX_BYTES else None
            # One that is gone has run for the last time meanwhile.
            if data is not None or size > MAX_BYTES:
                yield id.decode("utf-8", "backslashreplace"), data

    try:
        count = int(client.hlen(key))
        ids = sorted(client.hkeys(key)) if count <= MAX_JOBS else []
        yield JobStore(count, _in_pages(ids, states))
    except redis.RedisError as error:
        raise BoardUnavailable(f"the job store can't be read: {error}") from None
    finally:
        client.close()


def _each(client: Any, command: str, key: str, ids: Sequence[bytes]) -> list[Any]:
    pipeline = client.pipeline(transaction=False)
    for id in ids:
        getattr(pipeline, command)(key, id)
    return list(pipeline.execute())


@contextmanager
def _zookeeper(uri: str, name: str | None) -> Iterator[JobStore]:
    client_module = _library("kazoo.client", "jobboard[zookeeper]")
    from kazoo.exceptions import KazooException, NoNodeError

    address = Address.parse(uri)
    path = name or (address.path if address.path.strip("/") else "/apscheduler")
    hosts = ",".join(f"{host}:{port or 2181}" for host, port in address.hosts)
    client = client_module.KazooClient(hosts=hosts, timeout=_TIMEOUT, read_only=True)

    def states(ids: Sequence[str]) -> Iterator[Stored]:
        replies = [(id, client.get_async(f"{path}/{id}")) for id in ids]
        for id, reply in replies:
            try:
                data, _ = reply.get(timeout=_TIMEOUT)
            except NoNodeError:
                # It has run for the last time meanwhile.
                continue
            yield id, data

    try:
        client.start(timeout=_TIMEOUT)
        ids = sorted(client.get_children_async(path).get(timeout=_TIMEOUT))
        yield JobStore(len(ids), _in_pages(ids, states))
    except NoNodeError:
        raise ValueError(f"there is no znode {path}; its jobs are below /apscheduler, or name the path") from None
    except (KazooException, client.handler.timeout_exception) as error:
        raise BoardUnavailable(f"the job store can't be read: {error!r}") from None
    finally:
        client.stop()
        client.close()


@contextmanager
def _mongodb(uri: str, name: str | None) -> Iterator[JobStore]:
    pymongo = _library("pymongo", "pymongo")
    client = pymongo.MongoClient(uri, serverSelectionTimeoutMS=_TIMEOUT * 1000, socketTimeoutMS=_TIMEOUT * 1000)
    try:
        yield mongodb_jobs(client, urlsplit(uri).path.strip("/") or "apscheduler", name or "jobs")
    except pymongo.errors.PyMongoError as error:
        raise BoardUnavailable(f"the job store can't be read: {error}") from None
    finally:
        client.close()


def mongodb_jobs(client: Any, database: str, collection: str) -> JobStore:
    """Read the documents that ``MongoDBJobStore`` writes."""
    documents = client[database][collection]
    rows = documents.find({}, {"job_state": 1}).sort("_id").limit(MAX_JOBS)
    jobs = ((str(row["_id"]), bytes(row["job_state"])) for row in rows)
    return JobStore(int(documents.count_documents({})), jobs)


def _in_pages(ids: Sequence[Any], states: Callable[[Sequence[Any]], Iterator[Stored]]) -> Iterator[Stored]:
    for start in range(0, len(ids), _PAGE):
        yield from states(ids[start : start + _PAGE])


def _library(module: str, requirement: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingExtra(
            f"this job store needs the Python package {package!r}: pip install '{requirement}'"
        ) from None


_READERS = {
    "redis": _redis,
    "rediss": _redis,
    "unix": _redis,
    "zookeeper": _zookeeper,
    "mongodb": _mongodb,
}
