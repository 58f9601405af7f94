"""One connection to the server, non-blocking from its first packet on."""

import errno
import select
import socket
import ssl
from collections.abc import Callable

from holddown.edges.load.endpoint import Endpoint

READ, WRITE = select.EPOLLIN, select.EPOLLOUT
READ_BYTES = 65536


class Connection:
    """ready: requests can be sent on it. used: it has carried one. recv: what has come, empty for its end; raises
    BlockingIOError or ssl.SSLWantReadError for nothing. wanted: what it waits for before it is ready, or to send on.
    home: where its events are waited for."""

    __slots__ = ("_rest", "_socket", "_tls", "fd", "home", "ready", "recv", "used", "wanted")

    def __init__(self, to: Endpoint) -> None:
        """Raises: OSError."""
        self._socket = socket.socket(to.family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ready = self.used = False
        self.wanted = WRITE
        self.home: select.epoll | None = None
        self._rest = memoryview(b"")
        self._tls: ssl.SSLSocket | None = None
        said = self._socket.connect_ex(to.address)
        if said not in (0, errno.EINPROGRESS):
            self._socket.close()
            raise OSError(said, errno.errorcode.get(said, "cannot connect"))
        self.fd = self._socket.fileno()
        self.recv: Callable[[int], bytes] = self._socket.recv

    def go_on(self, to: Endpoint) -> None:
        """Its socket can be read or written. Raises: OSError where it comes to nothing."""
        said = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if said:
            raise OSError(said, errno.errorcode.get(said, "cannot connect"))
        if to.context is not None and not self._handshake(to.context, to.name):
            return
        self.ready, self.wanted = True, READ

    def _handshake(self, context: ssl.SSLContext, name: str) -> bool:
        if self._tls is None:
            self._tls = context.wrap_socket(self._socket, server_hostname=name, do_handshake_on_connect=False)
            self._socket, self.recv = self._tls, self._recv_tls
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self.wanted = READ
            return False
        except ssl.SSLWantWriteError:
            self.wanted = WRITE
            return False
        return True

    def _recv_tls(self, size: int) -> bytes:
        """Everything that is decrypted already: the kernel does not tell of that again."""
        assert self._tls is not None
        data = self._tls.recv(size)
        while data and self._tls.pending():
            data += self._tls.recv(size)
        return data

    def send(self, data: bytes) -> None:
        """As much as is taken now; `wanted` says whether there is more. Raises: OSError."""
        self._rest = memoryview(data)
        self.used = True
        self.push()

    def push(self) -> None:
        """Sends on. Raises: OSError."""
        try:
            while self._rest:
                self._rest = self._rest[self._socket.send(self._rest) :]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        self.wanted = READ | WRITE if self._rest else READ

    def close(self) -> None:
        self._socket.close()
