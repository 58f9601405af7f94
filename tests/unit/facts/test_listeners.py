"""Who listens where."""

import pytest

from holddown.facts.listeners import Listener, in_the_way, read_listeners

TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 40217 1 0000 100 0 0 10 0
   1: 0100007F:1F41 0100007F:1F40 01 00000000:00000000 00:00000000 00000000  1000        0 40218 1 0000 100 0 0 10 0
   2: 0100007F:1F42 0100007F:9999 06 00000000:00000000 00:00000000 00000000     0        0 0 3 0000
"""
TCP6 = """  sl  local_address                         remote_address                        st tx_queue rx_queue
   0: 00000000000000000000000000000000:1F40 00000000000000000000000000000000:0000 0A 0:0 00:0 0  0  0 77 1
   1: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0:0 00:0 0  33  0 78 1
"""


def test_only_listening_sockets_are_read() -> None:
    """Connections, and those in TIME_WAIT, take no port from a server."""
    assert read_listeners(TCP) == (Listener("127.0.0.1", 8000, 1000, 40217),)


def test_ipv6_words_are_turned_round() -> None:
    """The kernel prints 32-bit words in host order, for IPv6 four of them."""
    assert [(one.address, one.port, one.uid) for one in read_listeners(TCP6)] == [("::", 8000, 0), ("::1", 80, 33)]


@pytest.mark.parametrize(
    ("held", "wanted", "expected"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("0.0.0.0", "127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("::", "127.0.0.1", True),
        ("127.0.0.1", "::", True),
        ("::1", "127.0.0.1", False),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("0.0.0.0", "::1", False),
    ],
)
def test_who_is_in_the_way(held: str, wanted: str, expected: bool) -> None:
    """Equal addresses and wildcards collide, across families only through `::`."""
    listener = Listener(held, 8000, 0, 1)
    assert bool(in_the_way((listener,), wanted, 8000)) is expected
    assert in_the_way((listener,), wanted, 8001) == ()
