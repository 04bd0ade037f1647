"""A web server on loopback that misbehaves as told."""

import re
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple


class Answer(NamedTuple):
    """How a request is answered.

    cut: bytes of the body after which the connection drops; ranges: True if Range is honoured;
    length: True if the body's length is told; status: instead of what fits.
    """

    body: bytes = b""
    cut: int | None = None
    ranges: bool = True
    length: bool = True
    status: int | None = None


class Loopback:
    """answers: path → list of Answers, one a request, the last for ever after.

    requests: (path, headers) as they came; sent: bytes of bodies.
    """

    def __init__(self):
        self.answers, self.requests, self.sent = {}, [], 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.requests.append((self.path, dict(self.headers)))
                answers = server.answers.get(self.path, [Answer(status=404)])
                server._answer(self, answers.pop(0) if len(answers) > 1 else answers[0])

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self):
        """Stop serving."""
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()

    def _answer(self, handler, answer):
        total, start = len(answer.body), 0
        asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        if asked and answer.ranges and not answer.status:
            start = int(asked[1])
        fitting = 416 if start and start >= total else 206 if start else 200
        handler.send_response(answer.status or fitting)
        body = answer.body[start:]
        if start >= total and start:
            handler.send_header("Content-Range", f"bytes */{total}")
        elif start:
            handler.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{total}")
        if answer.length:
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        body = body[:answer.cut]
        self.sent += len(body)
        with suppress(ConnectionError):                       # a client need not read on
            handler.wfile.write(body)
