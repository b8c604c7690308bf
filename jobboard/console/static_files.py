"""The files beside the pages: read once, named by their content, so that browsers keep them."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_FOLDER = Path(__file__).parent / "static"
# Not from the system, whose table may say something else.
_KINDS = {".js": "text/javascript", ".css": "text/css"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file, as it is and compressed."""

    kind: str
    content: bytes
    compressed: bytes
    version: str


@cache
def static_files() -> dict[str, StaticFile]:
    """Return every file by its path, such as ``vendor/htmx.min.js``."""
    paths = [path for path in sorted(_FOLDER.rglob("*")) if path.suffix in _KINDS]
    return {path.relative_to(_FOLDER).as_posix(): _read(path) for path in paths}


def _read(path: Path) -> StaticFile:
    content = path.read_bytes()
    return StaticFile(
        _KINDS[path.suffix], content, gzip.compress(content, mtime=0), hashlib.sha256(content).hexdigest()[:16]
    )


def answer_with_file(request: Request) -> Response:
    """Answer a request for one of them; what is not among them is not there, whatever its path leads to."""
    file = static_files().get(request.path_params["path"])
    if file is None:
        raise HTTPException(404, "there is no such file")
    is_current = request.query_params.get("v") == file.version
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable" if is_current else "no-cache",
        "Vary": "Accept-Encoding",
    }
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, media_type=file.kind, headers=headers | {"Content-Encoding": "gzip"})
    return Response(file.content, media_type=file.kind, headers=headers)
