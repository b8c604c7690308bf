"""From the client library's errors to the seam's two."""

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

#: What it says when it did nothing and may well do it when asked again.
_PASSING = ("no leader", "not capable", "revision of auth store is old")

_NO_LEASE = "requested lease not found"
_LEASE_THERE = "lease already exists"
_BAD_TOKEN = "invalid auth token"  # nosec B105 # what etcd says


class LeaseGone(Exception):
    """A request wanted a lease that there is not (any more), and did nothing."""


class LeaseThere(Exception):
    """A lease of this id was granted before."""


class TokenGone(Exception):
    """The server knows this session no more, and did nothing."""


class Unreachable(Exception):
    """Nothing was sent, since there is no connection."""


class Unsettled(Exception):
    """The server refuses for now, and did nothing."""


class Lost(Exception):
    """A request has left, and what came of it is not known."""


def told(error: Exception) -> Exception:
    """Return what an error of the libraries means: one of this module's, or BoardUnavailable for a clear no."""
    cause = error if isinstance(error, requests.RequestException) else error.__context__
    if isinstance(cause, requests.RequestException):
        return Unreachable(_short(cause)) if _is_unsent(cause) else Lost(_short(cause))
    if not isinstance(error, exceptions.Etcd3Exception):
        return Lost(str(error) or type(error).__name__)
    text = _text(error)
    if _NO_LEASE in text:
        return LeaseGone(text)
    if _LEASE_THERE in text:
        return LeaseThere(text)
    if is_login_over(text):
        return TokenGone(text)
    if any(words in text for words in _PASSING):
        return Unsettled(text)
    hint = next((hint for words, hint in _HINTS.items() if words in text), None)
    unclear = (exceptions.InternalServerError, exceptions.ConnectionFailedError, exceptions.ConnectionTimeoutError)
    if hint is None and isinstance(error, unclear):
        return Lost(text)
    return BoardUnavailable("etcd refuses: " + (f"{hint} ({text})" if hint else text))


def is_login_over(text: str) -> bool:
    """Whether this is what the server says to a login that it does not know (any more)."""
    return _BAD_TOKEN in text


def unreachable(where: str, error: Exception) -> BoardUnavailable:
    """Say that nothing was changed."""
    return BoardUnavailable(f"etcd at {where} can't be reached: {error}")


def cut_off(where: str, error: Exception) -> ReplyLost:
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
