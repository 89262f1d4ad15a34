"""A web server on a real socket of this machine, for what others serve: documents, keys."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Page = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Web:
    """`pages`: by path. `asked`: the paths that were asked for, in order."""

    base: str
    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def says(self, path: str, document: object, status: int = 200) -> str:
        """Serves JSON there; the address of it."""
        self.pages[path] = lambda handler: answer(handler, json.dumps(document).encode(), status)
        return self.base + path


def answer(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def serving() -> Iterator[Web]:
    web = Web("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.asked.append(self.path)
            page = web.pages.get(self.path)
            if page is None:
                answer(self, b"{}", 404)
            else:
                page(self)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        web.base = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield web
        server.shutdown()
