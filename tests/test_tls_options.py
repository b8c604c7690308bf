"""Options of TLS that would let an impostor pass are refused before anything is asked."""

from __future__ import annotations

import pytest

from jobboard import fetch


@pytest.mark.parametrize(
    "uri",
    [
        "rediss://h?ssl_cert_reqs=none",
        "rediss://h?ssl_cert_reqs=optional",
        "rediss://h?ssl_check_hostname=false",
        "redis+sentinel://h/service?ssl=true&ssl_check_hostname=false",
        "redis+cluster://h?ssl=true&ssl_cert_reqs=none",
        "zookeeper://h?use_ssl=true&verify_certs=false",
        "zookeeper://h?use_ssl=true&check_hostname=false",
        "mysql://h/d?ssl_verify_cert=false",
        "mysql://h/d?ssl_verify_cert=true&ssl_verify_identity=false",
        "postgresql://h/d?sslmode=require",
        "postgresql://h/d?sslmode=verify-ca&sslrootcert=ca.pem",
    ],
)
def test_what_lets_an_impostor_pass_needs_a_plain_word(uri: str) -> None:
    with pytest.raises(ValueError, match="tls_unverified=true"):
        fetch("x", uri)
    fetch("x", f"{uri}&tls_unverified=true")


@pytest.mark.parametrize(
    ("uri", "fault"),
    [
        ("redis://h?tls_unverified=true", "without TLS"),
        ("zookeeper://h?ca=ca.pem", "use_ssl=true"),
        ("zookeeper://h?tls_unverified=true", "use_ssl=true"),
        ("postgresql://h/d?sslmode=disable&sslrootcert=ca.pem", "there is no TLS"),
        ("mysql://h/d?ssl_ca=/missing.pem", "can't be read"),
    ],
)
def test_options_of_tls_where_there_is_none_are_refused(uri: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        fetch("x", uri)
