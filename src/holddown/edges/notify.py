"""Words to the service manager that started this program. Source: sd_notify(3), its protocol: one datagram, an
assignment a line, to the Unix socket that NOTIFY_SOCKET names; a leading @ stands for the NUL of an abstract one."""

import os
import socket
from collections.abc import Sequence

_VARIABLE = "NOTIFY_SOCKET"


class NotifySocket:
    """address: empty where nobody listens."""

    def __init__(self, address: str) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address

    @staticmethod
    def inherited() -> "NotifySocket":
        """Taken out of the environment: an engine must not answer for its supervisor."""
        return NotifySocket(os.environ.pop(_VARIABLE, ""))

    def tell(self, words: Sequence[str]) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
                to.setblocking(False)  # a manager that is busy must not hold the supervisor up
                to.sendto("\n".join(words).encode(), self._address)
        except OSError:
            return  # it is gone or busy; what it is told is for it to miss
