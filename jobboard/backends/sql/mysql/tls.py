"""TLS to MySQL and MariaDB, by a context of our own: PyMySQL's options verify less, and differ by its version."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import Any

from jobboard.backends.options import is_on_this_host, tls_checks, truth

#: PyMySQL's own parameters, as they may stand in a URI, and ``tls_unverified``, which verifies nothing.
OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "ssl_ca": str,
    "ssl_cert": str,
    "ssl_key": str,
    "ssl_verify_cert": truth,
    "ssl_verify_identity": truth,
    "ssl_disabled": truth,
    "tls_unverified": truth,
}
_VERIFIED = {"ssl_verify_cert": True, "ssl_verify_identity": True}
_UNVERIFIED = dict.fromkeys(_VERIFIED, False)


def tls_of(given: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return PyMySQL's parameters: a context that verifies the server's authority and its host name.

    For a server on this host of whose TLS nothing is said, PyMySQL prefers TLS and takes what it gets.

    :raises ValueError: an option would let an impostor pass, or names a file that can't be read.
    """
    unverified = given.get("tls_unverified", False)
    options = given.keys() - {"tls_unverified", "ssl_disabled"}
    if given.get("ssl_disabled", False):
        if options or unverified:
            raise ValueError("ssl_disabled=true: there is no TLS, so leave out all other options of it")
        return {"ssl_disabled": True}
    if not unverified and not options and is_on_this_host(host):
        return {}
    checks = tls_checks(given, _VERIFIED, _UNVERIFIED, unverified=unverified)
    try:
        context = ssl.create_default_context(cafile=given.get("ssl_ca"))
        if "ssl_cert" in given:
            context.load_cert_chain(given["ssl_cert"], given.get("ssl_key"))
    except OSError as error:
        raise ValueError(f"the files of ssl_ca, ssl_cert and ssl_key can't be read: {error}") from None
    context.check_hostname = checks["ssl_verify_identity"]
    context.verify_mode = ssl.CERT_REQUIRED if checks["ssl_verify_cert"] else ssl.CERT_NONE
    return {"ssl": context}
