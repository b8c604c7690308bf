"""How a request is refused before a page is asked: in a sentence, as JSON for a program that sends or accepts it."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response


def sends_json(headers: Headers) -> bool:
    """Whether a request says that its body is JSON, which no form of a browser can."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def accepts_json(headers: Headers) -> bool:
    """Whether a request asks for JSON, and not for a page, as every browser does."""
    kinds = {kind.partition(";")[0].strip().lower() for kind in headers.get("accept", "").split(",")}
    return "application/json" in kinds and "text/html" not in kinds


def refusal(request: Headers, text: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer to a request with these headers.

    :param headers: of the answer.
    """
    if sends_json(request) or accepts_json(request):
        return JSONResponse({"error": text}, status, headers)
    return PlainTextResponse(f"{text}\n", status, headers)
