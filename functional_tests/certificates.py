"""Certificates of the tests' own, made by ``openssl``."""

from __future__ import annotations

import subprocess
from pathlib import Path

from servers import HOST


def make_certificates(folder: Path) -> None:
    """Make an authority and certificates, ``NAME.pem`` and ``NAME.key`` for each: ``server``, ``client``, ``nameless``.

    The last is a client's that has no common name.
    """

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=tests", "-days", "2")
    for name, subject in (("server", "/CN=server"), ("client", "/CN=client"), ("nameless", "/O=tests")):
        (folder / f"{name}.ext").write_text(f"subjectAltName=IP:{HOST},DNS:localhost\n")
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", f"{name}.pem", "-days", "2", "-extfile", f"{name}.ext",
        )  # fmt: skip
