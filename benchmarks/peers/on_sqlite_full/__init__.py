"""As ``on_sqlite``, but each commit waits for the disk: ``synchronous=FULL`` for all."""

from dataclasses import replace

from benchmarks.peers.on_sqlite import PEERS as _LATE
from benchmarks.peers.peer import JOBBOARD

STORE = "sqlite-full"

PEERS = [JOBBOARD, *(replace(peer, script=f"../on_sqlite/{peer.script}") for peer in _LATE if not peer.is_board)]
