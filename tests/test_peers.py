"""What counts as one peer, and which address a proxy tells."""

from __future__ import annotations

import pytest

from jobboard.peers import forwarded_address, network_of


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:DB8:0:0:ffff::1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("unknown", "unknown"),
        ("", ""),
    ],
)
def test_the_network_of_an_address(address: str, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.parametrize(
    ("values", "address"),
    [
        ([], None),
        ([""], None),
        (["203.0.113.7"], "203.0.113.7"),
        (["10.0.0.1, 203.0.113.7"], "203.0.113.7"),
        (["203.0.113.7", "10.0.0.1 , 203.0.113.8:4711"], "203.0.113.8"),
        (["203.0.113.7,"], None),
        (["2001:db8::1"], "2001:db8::1"),
        (["[2001:db8::1]"], "2001:db8::1"),
        (["[2001:db8::1]:4711"], "2001:db8::1"),
        (["unknown"], "unknown"),
    ],
)
def test_the_address_that_a_proxy_tells(values: list[str], address: str | None) -> None:
    assert forwarded_address(values) == address
