"""Certificates of the tests' own, made by ``openssl``: good ones, and those of impostors."""

from __future__ import annotations

import subprocess
from pathlib import Path

from servers.base import HOST

#: A key is made with each certificate.
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_HERE = f"IP:{HOST},DNS:localhost"


def make_certificates(folder: Path) -> None:
    """Make an authority and certificates, ``NAME.pem`` and ``NAME.key`` for each: ``server``, ``client``, ``nameless``.

    The last is a client's that has no common name.
    """
    _make_authority(folder, "ca")
    for name, subject in (("server", "/CN=server"), ("client", "/CN=client"), ("nameless", "/O=tests")):
        _make_certificate(folder, name, subject)


def make_impostors(folder: Path) -> None:
    """Make a server's certificates that nobody may trust: ``elsewhere``, ``stranger`` and ``expired``."""
    _make_authority(folder, "ca2")
    _make_certificate(folder, "elsewhere", "/CN=elsewhere", names="DNS:elsewhere.example")
    _make_certificate(folder, "stranger", "/CN=server", authority="ca2")
    _make_certificate(folder, "expired", "/CN=server", days=-1)


def _make_authority(folder: Path, name: str) -> None:
    _openssl(folder, "req", "-x509", *_KEY, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}")


def _make_certificate(
    folder: Path, name: str, subject: str, *, names: str = _HERE, authority: str = "ca", days: int = 2
) -> None:
    (folder / f"{name}.ext").write_text(f"subjectAltName={names}\n")
    _openssl(folder, "req", *_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
    _openssl(
        folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
        "-CAcreateserial", "-out", f"{name}.pem", "-days", str(days), "-extfile", f"{name}.ext",
    )  # fmt: skip


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
