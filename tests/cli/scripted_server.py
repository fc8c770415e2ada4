"""A server that answers chat requests by script, over real HTTP, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REPORT = {
    "sampling": {
        "temperature": {"value": 0.6, "origin": "operator"},
        "top_p": {"value": 0.9, "origin": "model"},
        "top_k": {"value": 0, "origin": "protocol"},
        "min_p": {"value": 0.0, "origin": "protocol"},
    },
    "clamped": [{"param": "max_tokens", "asked": 9000, "used": 100, "reason": "the context is full then"}],
    "warnings": [{"param": "x", "message": "unknown field 'x' was ignored"}],
}


def piece(**delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def ending(reason="stop", tokens=3):
    usage = {"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens}
    return [
        {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "isotherm": REPORT},
        {"choices": [], "usage": usage},
        "[DONE]",
    ]


ANSWER = [
    piece(role="assistant"),
    ": keep-alive",
    piece(content="Hel"),
    0.02,
    piece(content="lo "),
    piece(content="you"),
    *ending(),
]
"""Events in order: a dict is sent as JSON, a text as it is, a number is a pause in seconds."""


class Script:
    """``answers`` are used in turn, the last one again and again; a pair (status, object) is an error."""

    def __init__(self, answers):
        self.answers = answers
        self.bodies = []
        self.keys = []
        self.hung_up = threading.Event()
        self.models = {"object": "list", "data": [{"id": "scripted", "object": "model"}]}

    def next(self):
        return self.answers[min(len(self.bodies) - 1, len(self.answers) - 1)]


class Handler(BaseHTTPRequestHandler):
    script: Script

    def log_message(self, *args):
        pass

    def do_GET(self):
        self._whole(200, self.script.models)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.script.bodies.append(json.loads(body))
        self.script.keys.append(self.headers.get("Authorization"))
        answer = self.script.next()
        if isinstance(answer, tuple):
            self._whole(*answer)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in answer:
            self._send(event)

    def _send(self, event):
        if isinstance(event, int | float):
            time.sleep(event)
            return
        text = json.dumps(event) if isinstance(event, dict) else event
        line = text if text.startswith(":") else f"data: {text}"
        try:
            self.wfile.write(f"{line}\n\n".encode())
            self.wfile.flush()
        except OSError:
            self.script.hung_up.set()

    def _whole(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def scripted(*answers):
    """The script of a running server and its URL."""
    script = Script(answers or (ANSWER,))
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"script": script}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield script, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
