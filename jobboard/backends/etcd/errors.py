"""What the client library's errors mean, and the seam's two errors."""

from __future__ import annotations

import json

import requests
from etcd3gw import exceptions
from urllib3.exceptions import MaxRetryError, NewConnectionError, TimeoutError

from jobboard.errors import BoardUnavailable, ReplyLost

#: What a server says when it did nothing, and what to do about it.
_HINTS = {
    "too many requests": "it has more to do than it can",
    "database space exceeded": "its space is used up; compact and defragment it, then disarm the alarm",
    "request is too large": "one request may be 1.5 MiB; post less at once, or references to large data",
    "received message larger than max": "one request may be 1.5 MiB; post less at once, or references to large data",
    "too many operations in txn request": "raise its --max-txn-ops to 128 or more",
    "permission denied": "this user lacks a right; see 'Least rights' in the docs of the etcd board",
    "authentication failed": "it refuses this user and password",
    "user name is empty": "it wants a user: etcd://USER:PASSWORD@HOST:2379",
    "CommonName of client": "beside users, its gateway takes only a client's certificate that has no common name (CN)",
    "authentication is not enabled": "it knows no users; leave out USER:PASSWORD",
}

_BAD_TOKEN = "invalid auth token"  # nosec B105 # what etcd says


class LeaseNotFound(Exception):
    """A request needed a lease that does not exist (any more), and did nothing."""


class LeaseExists(Exception):
    """A lease of this id was granted before."""


class LoginExpired(Exception):
    """The server does not know this login any more, and did nothing."""


class Unreachable(Exception):
    """Nothing was sent, since there is no connection."""


class RefusedForNow(Exception):
    """The server refuses for now, and did nothing."""


class NoReply(Exception):
    """A request has left, and its outcome is not known."""


#: What the server says when it did nothing, and what that means to the one who asked.
_MEANINGS = {
    "requested lease not found": LeaseNotFound,
    "lease already exists": LeaseExists,
    _BAD_TOKEN: LoginExpired,
    "no leader": RefusedForNow,
    "not capable": RefusedForNow,
    "revision of auth store is old": RefusedForNow,
}


def meaning_of(error: Exception) -> Exception:
    """Return what an error of the libraries means: one of this module's, or BoardUnavailable for a refusal."""
    cause = error if isinstance(error, requests.RequestException) else error.__context__
    if isinstance(cause, requests.RequestException):
        return Unreachable(_short(cause)) if _is_unsent(cause) else NoReply(_short(cause))
    if not isinstance(error, exceptions.Etcd3Exception):
        return NoReply(str(error) or type(error).__name__)
    text = _text(error)
    meaning = next((meaning for words, meaning in _MEANINGS.items() if words in text), None)
    if meaning is not None:
        return meaning(text)
    hint = next((hint for words, hint in _HINTS.items() if words in text), None)
    unclear = (exceptions.InternalServerError, exceptions.ConnectionFailedError, exceptions.ConnectionTimeoutError)
    if hint is None and isinstance(error, unclear):
        return NoReply(text)
    return BoardUnavailable("etcd refuses: " + (f"{hint} ({text})" if hint else text))


def is_login_expired(text: str) -> bool:
    """Whether this is what the server says to a login that it does not know (any more)."""
    return _BAD_TOKEN in text


def unreachable(where: str, error: Exception) -> BoardUnavailable:
    """Say that nothing was changed."""
    return BoardUnavailable(f"etcd at {where} can't be reached: {error}")


def reply_lost(where: str, error: Exception) -> ReplyLost:
    """Say that a change has left and its reply has not come."""
    return ReplyLost(f"etcd at {where} did not reply: {error}")


def _is_unsent(error: requests.RequestException) -> bool:
    if isinstance(error, requests.exceptions.ConnectTimeout | requests.exceptions.SSLError):
        # A handshake of TLS 1.3 may fail with the first read, when the server has refused the client's certificate.
        return True
    reason = error.args[0] if error.args else None
    cause = reason.reason if isinstance(reason, MaxRetryError) else reason
    return isinstance(cause, NewConnectionError) or (
        isinstance(cause, TimeoutError) and isinstance(error, requests.exceptions.ConnectTimeout)
    )


def _text(error: exceptions.Etcd3Exception) -> str:
    """Return what the server said; the library keeps the JSON of it as it came."""
    said = str(getattr(error, "detail_text", None) or error)
    try:
        found = json.loads(said)
    except ValueError:
        return said.strip() or type(error).__name__
    return str(found.get("message") or found.get("error") or said) if isinstance(found, dict) else said


def _short(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return str(getattr(reason, "reason", None) or reason or type(error).__name__)
