"""E-mail addresses: which ones there can be, and that each mailbox has one spelling. And who counts as one peer."""

import pytest

from services.accounts.domain.addresses import normalised
from services.accounts.domain.peers import network_of


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("anna@example.org", "anna@example.org"),
        (" Anna.Maria+cards@Example.ORG\n", "anna.maria+cards@example.org"),
        ("user@bücher.example", "user@xn--bcher-kva.example"),
        ("user@BÜCHER.example", "user@xn--bcher-kva.example"),
        ("user@xn--BCHER-kva.example", "user@xn--bcher-kva.example"),
        ("user@ｅｘａｍｐｌｅ.org", "user@example.org"),  # noqa: RUF001 - full width
        ("user@मेल.भारत", "user@xn--r2bi6d.xn--h2brj9c"),
        (f"{'a' * 64}@example.org", f"{'a' * 64}@example.org"),
    ],
)
def test_an_address(text: str, address: str) -> None:
    assert normalised(text) == address
    assert normalised(address) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "anna",
        "anna@",
        "@example.org",
        "a b@example.org",
        "a..b@example.org",
        ".a@example.org",
        "a@b@example.org",
        '"a b"@example.org',
        "é@example.org",
        "anna@example",
        "anna@example.",
        "anna@.org",
        "anna@-x.org",
        "anna@x-.org",
        "anna@exa mple.org",
        "anna@exa_mple.org",
        "anna@127.0.0.1",
        "anna@[127.0.0.1]",
        "anna@example.org\r\nBcc: x@example.org",
        "anna\x00@example.org",
        f"{'a' * 65}@example.org",
        f"anna@{'a' * 64}.org",
        f"anna@{'abcdefgh.' * 28}org",
    ],
)
def test_no_address(text: str) -> None:
    assert normalised(text) is None


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2::1]", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("unix:", "unix:"),
    ],
)
def test_a_peer_is_the_network_that_it_can_choose_from(peer: str, network: str) -> None:
    assert network_of(peer) == network
