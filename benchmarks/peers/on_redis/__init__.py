"""The libraries that keep jobs on Redis; each runs one worker process, at the setting that was fastest for it."""

from benchmarks.peers.peer import JOBBOARD, Peer, Promises

PEERS = [
    JOBBOARD,
    Peer(
        "BullMQ",
        "with_bullmq.py",
        requirements=(),
        node=("bullmq", "ioredis"),
        setting="Node.js, 64 at once, finished jobs removed",
        promises=Promises("fenced by a token", "one job, by its id", "again, once it stalled"),
    ),
    Peer(
        "Huey",
        "with_huey.py",
        ("huey", "redis"),
        "1 thread, blocking reads, no results",
        Promises("none to fence", "two jobs", "lost"),
    ),
    Peer(
        "taskiq",
        "with_taskiq.py",
        ("taskiq", "taskiq-redis", "redis[hiredis]", "uvloop"),
        "a list, prefetch 64, no results",
        Promises("none to fence", "two jobs", "lost"),
    ),
    Peer(
        "Dramatiq",
        "with_dramatiq.py",
        ("dramatiq[redis]",),
        "1 process, 8 threads",
        Promises("not fenced", "two jobs", "again after a minute"),
    ),
    Peer(
        "Celery",
        "with_celery.py",
        ("celery[redis]",),
        "solo pool, results ignored, prefetch 64",
        Promises("none to fence", "two jobs", "lost if it had begun"),
    ),
    Peer(
        "RQ",
        "with_rq.py",
        ("rq",),
        "SimpleWorker, which forks for no job",
        Promises("not fenced", "two jobs", "to the failed ones"),
    ),
    Peer(
        "arq",
        "with_arq.py",
        ("arq",),
        "64 coroutines, poll_delay 1 ms, no results kept",
        Promises("not fenced", "one job, by its id", "again after its timeout"),
    ),
    Peer(
        "SAQ",
        "with_saq.py",
        ("saq[redis,hiredis]", "typing_extensions"),
        "64 coroutines",
        Promises("not fenced", "one job, by its key", "again after its timeout"),
    ),
    Peer(
        "TaskFlow",
        "with_taskflow.py",
        ("taskflow", "redis"),
        "a loop over iterjobs: claim, consume",
        Promises("by the owner's name", "two jobs", "held for ever unless claimed with an expiry"),
        share=0.1,
    ),
]
