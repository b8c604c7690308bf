"""What the stores' options have in common: values made of text, or taken as they are."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Mapping
from typing import Any

from jobboard.backends.warn_once import warn_once
from jobboard.validation import option_in_seconds

logger = logging.getLogger("jobboard")

#: libpq's own parameters, as they may stand in a URI, or in Django's settings.
LIBPQ = (
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslcrl", "passfile", "service", "gssencmode"),
    *("application_name", "target_session_attrs", "channel_binding", "options"),
)

_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


def truth(value: Any) -> bool:
    """Return a bool given as such or as a word."""
    word = str(value).lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"must be true or false, not {value!r}")
    return word in _TRUE


def one_of(*words: str) -> Callable[[Any], str]:
    """Return what takes one of these words."""

    def checked(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}; got {value!r}")
        return str(value)

    return checked


def seconds(value: Any) -> float:
    """Return a time span given as a number, as a timedelta or as text."""
    number = option_in_seconds(value)
    if not 0 < number < float("inf"):
        raise ValueError(f"must be more than 0 seconds, and finite; got {value!r}")
    return number


def is_on_this_host(host: str) -> bool:
    """Whether a name, an address or the path of a Unix socket leads to this host, by itself; a resolver may lie."""
    if host == "localhost" or host.startswith(("/", "@")):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def tls_checks(
    given: Mapping[str, Any], safe: Mapping[str, Any], unsafe: Mapping[str, Any], *, unverified: bool
) -> dict[str, Any]:
    """Return what makes a client verify both the authority of a server's certificate and the host's name in it.

    :param given: the options of TLS as the user wrote them.
    :param safe: the values that verify both, under the client's own names.
    :param unsafe: the values that verify neither; only ``tls_unverified=true`` allows these, or any between.
    :raises ValueError: an option would let an impostor pass, and nobody said that it may.
    """
    if unverified:
        warn_once(logger, "tls_unverified=true: nobody verifies who the server is; an impostor gets the password")
        return {name: given.get(name, value) for name, value in unsafe.items()}
    for name, value in safe.items():
        if given.get(name, value) != value:
            raise ValueError(
                f"option {name}: {given[name]} lets an impostor pass; make it {_word(value)},"
                " or say tls_unverified=true"
            )
    return dict(safe)


def _word(value: Any) -> str:
    """Return how a value stands in a URI."""
    return str(value).lower() if isinstance(value, bool) else str(value)
