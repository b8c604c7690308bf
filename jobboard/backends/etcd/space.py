"""How full etcd is: it keeps every revision until somebody compacts it, and takes no changes once its space is full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobboard.backends.findings import Shortage

#: What a server allows itself if nothing else is set; before 3.6 none tells what it is set to.
DEFAULT_QUOTA = 2 * 1024**3
#: The part of it that may be used before anybody is told.
_ENOUGH = 0.6
_MIB = 1024**2


def shortages_of(status: Mapping[str, Any], where: str) -> list[Shortage]:
    """Return what a server's status says of its space, if that will soon be full; names the commands that mend it."""
    size, quota = int(status.get("dbSize", 0)), int(status.get("dbSizeQuota", 0))
    allowed = quota or DEFAULT_QUOTA
    is_full = any("NOSPACE" in str(error) for error in status.get("errors", ()))
    if size < _ENOUGH * allowed and not is_full:
        return []
    cure = f"run 'etcdctl compact {status['header']['revision']}' and 'etcdctl defrag'"
    keep = "start it with --auto-compaction-retention=1h"
    if is_full:
        full = f"etcd at {where} has used up its space, {size // _MIB} MiB, and takes no changes"
        return [Shortage(f"{full}: {cure}, then 'etcdctl alarm disarm', and {keep}", is_full=True)]
    unless = "" if quota else ", unless --quota-backend-bytes is set to more"
    full = f"etcd at {where} fills {size // _MIB} MiB of its {allowed // _MIB} MiB{unless}"
    return [Shortage(f"{full}, and takes no changes once that is full: {cure}, and {keep}")]
