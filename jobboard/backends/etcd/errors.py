"""What the client library's errors mean, and the seam's two errors."""

from __future__ import annotations

import json
import textwrap

import requests
from etcd3gw import exceptions
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    MaxRetryError,
    NewConnectionError,
    SSLError,
)

from jobboard.errors import BoardUnavailable, ReplyLost, TooLarge

#: How many characters an error repeats of what the server said.
_MAX_WORDS = 300

_TOO_LARGE = "one request may be 1.5 MiB; post less at once, or references to large data"

_NO_USER = "user name is empty"

#: What etcd says to a login that does not hold any more; also to one that is older than the last change of a user or
#: role, if the token itself says how old it is.
_EXPIRED = ("invalid auth token", "revision of auth store is old", _NO_USER)


class LeaseNotFound(Exception):
    """A request needed a lease that does not exist (any more), and did nothing."""


class LeaseExists(Exception):
    """A lease of this id was granted before."""


class LoginExpired(Exception):
    """The server does not know this login any more, and did nothing."""


class EndpointFailed(Exception):
    """This endpoint can't answer now; another one may."""


class Unreachable(EndpointFailed):
    """Nothing was sent, since there is no connection."""


class RefusedForNow(EndpointFailed):
    """The server refuses for now, and did nothing."""


class NoReply(EndpointFailed):
    """A request was sent, and its outcome is not known."""


#: What the server says when it did nothing: the error that this means, or what to do about it.
_MEANINGS: dict[str, type[Exception] | str] = {
    "requested lease not found": LeaseNotFound,
    "lease already exists": LeaseExists,
    **dict.fromkeys(_EXPIRED, LoginExpired),
    "no leader": RefusedForNow,
    "not capable": RefusedForNow,
    "too many requests": "it has more to do than it can",
    "database space exceeded": "its space is used up; compact and defragment it, then disarm the alarm",
    "request is too large": _TOO_LARGE,
    "received message larger than max": _TOO_LARGE,
    "too many operations in txn request": "raise its --max-txn-ops to 128 or more",
    "permission denied": "this user lacks a right; see 'Users and rights' in the docs of the etcd board",
    "authentication failed": "it refuses this user and password",
    "CommonName of client": "beside users, its gateway takes only a client's certificate that has no common name (CN)",
    "authentication is not enabled": "it knows no users; leave out USER:PASSWORD",
    "<html": "is there an etcd at this address? A web page answers",
}

#: urllib3's errors after which nothing was sent. If the server refuses the client's certificate, TLS 1.3 tells so only
#: at the first read.
_UNSENT = (ConnectTimeoutError, SSLError)

#: Errors of the library after which a request may have been carried out, unless the server's words say more.
_UNCLEAR = (exceptions.InternalServerError, exceptions.ConnectionFailedError, exceptions.ConnectionTimeoutError)


def meaning_of(error: Exception) -> Exception:
    """Return what an error of the libraries means: an error of this module, or BoardUnavailable for a refusal."""
    if isinstance(error, HTTPError):
        return Unreachable(str(error)) if isinstance(error, _UNSENT) else NoReply(str(error))
    cause = error if isinstance(error, requests.RequestException) else error.__context__
    if isinstance(cause, requests.RequestException):
        return Unreachable(_short(cause)) if _is_unsent(cause) else NoReply(_short(cause))
    if not isinstance(error, exceptions.Etcd3Exception):
        return NoReply(str(error) or type(error).__name__)
    return _meaning_of_words(_text(error), is_unclear=isinstance(error, _UNCLEAR))


def _meaning_of_words(text: str, *, is_unclear: bool) -> Exception:
    meaning = next((meaning for words, meaning in _MEANINGS.items() if words in text), None)
    if isinstance(meaning, type):
        return meaning(text)
    if meaning is None and is_unclear:
        return NoReply(text)
    said = textwrap.shorten(text, _MAX_WORDS)
    refusal = "etcd refuses: " + (f"{meaning} ({said})" if meaning else said)
    return TooLarge(refusal) if meaning == _TOO_LARGE else BoardUnavailable(refusal)


def is_login_expired(text: str) -> bool:
    """Whether these are the server's words for a login that it does not know (any more)."""
    return any(words in text for words in _EXPIRED)


def refused_login(error: LoginExpired) -> BoardUnavailable:
    """Return the error for a request that no new login helps."""
    hint = (
        "it wants a user: etcd://USER:PASSWORD@HOST:2379" if _NO_USER in str(error) else "it does not know this login"
    )
    return BoardUnavailable(f"etcd refuses: {hint} ({error})")


def unreachable(where: str, error: Exception) -> BoardUnavailable:
    """Return the error for a request that changed nothing."""
    return BoardUnavailable(f"etcd at {where} can't be reached: {error}")


def reply_lost(where: str, error: Exception) -> ReplyLost:
    """Return the error for a change that was sent, and whose reply did not come."""
    return ReplyLost(f"etcd at {where} did not reply: {error}")


def _is_unsent(error: requests.RequestException) -> bool:
    if isinstance(error, requests.exceptions.ConnectTimeout | requests.exceptions.SSLError):
        return True
    reason = error.args[0] if error.args else None
    cause = reason.reason if isinstance(reason, MaxRetryError) else reason
    return isinstance(cause, NewConnectionError)


def _text(error: exceptions.Etcd3Exception) -> str:
    """Return what the server said, out of the JSON that the library keeps."""
    said = str(getattr(error, "detail_text", None) or error)
    try:
        found = json.loads(said)
    except ValueError:
        return said.strip() or type(error).__name__
    return str(found.get("message") or found.get("error") or said) if isinstance(found, dict) else said


def _short(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return str(getattr(reason, "reason", None) or reason or type(error).__name__)
