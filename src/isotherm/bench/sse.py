"""Server-sent events out of bytes that arrive in any pieces."""

from __future__ import annotations

DONE = b"[DONE]"
"""The payload that ends an OpenAI stream."""


class EventParser:
    """Fed raw bytes; gives the ``data:`` payloads that became complete. Comments and other fields are dropped.

    Lines end with LF, CRLF or CR LF split between reads; an event's several data lines are joined by LF.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Payloads completed by ``chunk``, in order."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        payloads = []
        for line in lines:
            field = line.rstrip(b"\r")
            if field.startswith(b"data:"):
                self._data.append(field[5:].removeprefix(b" "))
            elif not field and self._data:
                payloads.append(b"\n".join(self._data))
                self._data.clear()
        return payloads
