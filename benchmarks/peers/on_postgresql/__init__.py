"""The libraries that keep jobs on PostgreSQL; each runs one worker process, at the setting that was fastest for it."""

from benchmarks.peers.peer import JOBBOARD, Peer, Promises

PEERS = [
    JOBBOARD,
    Peer(
        "Procrastinate",
        "with_procrastinate.py",
        ("procrastinate",),
        "64 coroutines, LISTEN, jobs kept",
        Promises("not fenced", "one waiting job, by its lock", "held until a task of the user's frees it"),
        share=0.1,
        table="procrastinate_jobs",
    ),
    Peer(
        "PgQueuer",
        "with_pgqueuer.py",
        ("pgqueuer[asyncpg]", "uvloop"),
        "asyncpg and uvloop, batches of 100, LISTEN",
        Promises("not fenced", "one job, by its key", "again, once its heartbeat is late"),
        table="pgqueuer",
    ),
    Peer(
        "DBOS",
        "with_dbos.py",
        ("dbos", "psycopg[binary]"),
        "64 threads, looks every 10 ms",
        Promises("not fenced", "one workflow, by its id", "again, once the same executor is back"),
        share=0.02,
    ),
]
