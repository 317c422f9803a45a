"""Stands for a scheduler that `preloaded.py` starts: `preloaded_client.py SOCKET FLAGS...`. It imports next to nothing, as imports cost."""

import os
import signal
import socket
import sys


def main() -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(sys.argv[1])
        signal.signal(signal.SIGTERM, lambda *_: connection.send(b"T"))
        socket.send_fds(connection, ["\0".join(sys.argv[2:]).encode()], [1, 2])
        code = int(connection.recv(16) or b"1")
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


sys.exit(main())
