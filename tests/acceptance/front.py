"""What stands before several servers in a deployment: one address, and connections to whichever server is there."""

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def front(ports: Sequence[int]) -> Iterator[int]:
    """The port of an address whose connections go to the first of these ports that takes them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, ports), daemon=True).start()
        yield int(listener.getsockname()[1])


def _accept(listener: socket.socket, ports: Sequence[int]) -> None:
    with contextlib.suppress(OSError):  # closed: the test is over
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, ports), daemon=True).start()


def _serve(client: socket.socket, ports: Sequence[int]) -> None:
    with client, contextlib.suppress(OSError):
        for port in ports:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)) as server:
                back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                back.start()
                _pump(client, server)
                back.join()
                return


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """What comes in on one side goes out on the other, its end too."""
    with contextlib.suppress(OSError):
        while chunk := source.recv(65536):
            sink.sendall(chunk)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
