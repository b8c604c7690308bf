"""The libraries that keep jobs on Redis; each runs one worker process, at the setting that was fastest for it."""

from benchmarks.peers.peer import Peer

PEERS = [
    Peer("jobboard", "../with_jobboard.py", setting="conductor, 64 threads"),
    Peer("RQ", "with_rq.py", ("rq",), "SimpleWorker, which forks for no job"),
    Peer("Celery", "with_celery.py", ("celery[redis]",), "solo pool, results ignored, prefetch 64"),
    Peer("Dramatiq", "with_dramatiq.py", ("dramatiq[redis]",), "1 process, 8 threads"),
    Peer("Huey", "with_huey.py", ("huey", "redis"), "1 thread, blocking reads, no results"),
    Peer("arq", "with_arq.py", ("arq",), "64 coroutines, poll_delay 1 ms, no results kept"),
    Peer("SAQ", "with_saq.py", ("saq[redis,hiredis]", "typing_extensions"), "64 coroutines"),
    Peer("TaskFlow", "with_taskflow.py", ("taskflow", "redis"), "a loop over iterjobs: claim, consume", share=0.1),
]
