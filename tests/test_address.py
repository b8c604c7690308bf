"""URIs of boards, taken apart."""

from __future__ import annotations

import traceback
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobboard import fetch
from jobboard.backends.address import Address


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("memory://", Address("memory")),
        ("sqlite:///jobs.db", Address("sqlite", path="/jobs.db")),
        ("sqlite:////var/lib/jobs.db", Address("sqlite", path="//var/lib/jobs.db")),
        ("redis://h", Address("redis", (("h", None),))),
        ("redis://h:6379/3", Address("redis", (("h", 6379),), "/3")),
        ("rediss://:secret@h/0", Address("rediss", (("h", None),), "/0", password="secret")),
        (
            "postgresql://bob:s%40c%2Fret@db:5432/jobs",
            Address("postgresql", (("db", 5432),), "/jobs", "bob", "s@c/ret"),
        ),
        (
            "zookeeper://a:2181,b:2182,c/chroot/deep",
            Address("zookeeper", (("a", 2181), ("b", 2182), ("c", None)), "/chroot/deep"),
        ),
        ("etcd://[::1]:2379", Address("etcd", (("::1", 2379),))),
        ("etcd://[fe80::1]", Address("etcd", (("fe80::1", None),))),
        ("sqlite:///with%20space%3F.db", Address("sqlite", path="/with space?.db")),
        ("redis://h?a=1&b=x%20y&c=", Address("redis", (("h", None),), query={"a": "1", "b": "x y", "c": ""})),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_part_of_a_uri_is_found(uri: str, address: Address) -> None:
    assert Address.parse(uri) == address


@pytest.mark.parametrize("uri", ["", "redis", "redis:", "redis:/path", "/path", "jobs.db", "://h", "C:\\jobs.db"])
def test_what_is_no_uri_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="scheme://"):
        Address.parse(uri)


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1", "+5", "١", "6379a", "1e3"])
def test_a_bad_port_is_refused(port: str) -> None:
    with pytest.raises(ValueError, match=r"a port of the URI must be a number from 1 to 65535"):
        Address.parse(f"redis://h:{port}/0")


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        Address.parse("redis://h?a=1&a=2")


@pytest.mark.parametrize(
    "uri",
    [
        "redis://bob:hunter2@h:x", "redis://bob:hunter2@h:0?a=1", "redis://bob:hunter2@h?a=1&a=2",
        "redis://:hunter2/x@h", "redis://:1/hunter2@h", "redis://bob:hunter2#x@h", "redis://bob:1#hunter2@h",
        "redis://bob:hunter2?x@h", "redis://bob:1?hunter2@h", "redis://h:hunter2", "redis:/:hunter2@h",
        "redis:hunter2@h", "redis//bob:hunter2@h", "redis://bob:hunter2\uff03@h", "redis://bob:[hunter2@h",
        "redis://bob:hunter2]@h", "redis://hunter2:@h:x", "bob:hunter2@h", "redis://bob:hunter2@h#", "hunter2@h",
    ],
)  # fmt: skip
@pytest.mark.parametrize("as_dict", [False, True])
def test_errors_repeat_nothing_of_a_malformed_uri(uri: str, as_dict: bool) -> None:
    with pytest.raises(ValueError) as caught:
        fetch("x", {"board": uri} if as_dict else uri)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_path_without_a_host_may_hold_an_at() -> None:
    assert Address.parse("sqlite:///a@b.db").path == "/a@b.db"


def test_repr_never_shows_a_password() -> None:
    assert "hunter2" not in repr(Address.parse("redis://bob:hunter2@h?token=hunter2"))


words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)


@given(words, words, words, st.integers(1, 65535))
def test_quoted_parts_arrive_as_they_were(username: str, password: str, path: str, port: int) -> None:
    def quoted(text: str) -> str:
        return quote(text, safe="")

    uri = f"redis://{quoted(username)}:{quoted(password)}@host:{port}/{quoted(path)}"
    address = Address.parse(uri)
    assert (address.username, address.password, address.path) == (username, password, "/" + path)
    assert address.hosts == (("host", port),)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    try:
        address = Address.parse(text)
    except ValueError:
        return
    assert address.scheme
