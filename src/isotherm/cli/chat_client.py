"""One answer from an OpenAI-compatible server, read as it streams."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from isotherm.base.errors import IsothermError, SetupError
from isotherm.base.outcome import Channel

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_TIMEOUT = httpx.Timeout(120.0, connect=5.0)
"""Between two reads; the server sends keep-alive comments far more often than this."""


class ServerRefused(IsothermError):
    """The server answered with an error, or broke off; the message is for a person."""


@dataclass(slots=True)
class Answer:
    """What came back so far. Times are seconds since the request was sent; None until known.

    ``report`` is the server's ``isotherm`` object: effective sampling values with origins, warnings.
    """

    content: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    first_token_s: float | None = None
    last_token_s: float | None = None

    @property
    def tokens_per_second(self) -> float | None:
        """Decode speed: tokens after the first over the time since the first."""
        tokens = self.usage.get("completion_tokens", 0)
        if self.first_token_s is None or self.last_token_s is None or tokens < 2:
            return None
        span = self.last_token_s - self.first_token_s
        return (tokens - 1) / span if span > 0 else None

    def as_json(self) -> dict[str, Any]:
        """For ``--json``: everything above in one object, speeds rounded to what they mean."""
        speed = self.tokens_per_second
        return {
            "content": self.content,
            "reasoning": self.reasoning,
            "finish_reason": self.finish_reason,
            "usage": dict(self.usage),
            "isotherm": dict(self.report),
            "ttft_s": None if self.first_token_s is None else round(self.first_token_s, 4),
            "tokens_per_second": None if speed is None else round(speed, 2),
        }


class ChatClient:
    """A server at ``url`` (with or without scheme and ``/v1``)."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = _base_url(url)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        local = urlsplit(self.url).hostname in _LOOPBACK
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=_TIMEOUT, trust_env=not local)

    def close(self) -> None:
        self._http.close()

    def model(self) -> str:
        """Name of the first model served; raises SetupError when nobody answers at the URL."""
        try:
            response = self._http.get("/v1/models")
        except httpx.HTTPError as problem:
            raise SetupError(
                f"No server answers at {self.url} ({problem}). "
                "Start one with `isotherm serve`, or name another with --url."
            ) from None
        if response.status_code != 200:
            raise ServerRefused(_error_text(response.status_code, response.text))
        try:
            return str(response.json()["data"][0]["id"])
        except (ValueError, LookupError, TypeError):
            raise SetupError(f"{self.url} answers, but not as an OpenAI-compatible server. Check --url.") from None

    def stream(self, body: Mapping[str, Any], answer: Answer) -> Generator[tuple[Channel, str], None, None]:
        """Send a chat request; yields pieces as they come and fills ``answer``.

        Leaving the iteration closes the connection, which makes the server stop generating.
        """
        sent = time.perf_counter()
        request = {**body, "stream": True, "stream_options": {"include_usage": True}}
        try:
            with self._http.stream("POST", "/v1/chat/completions", json=request) as response:
                if response.status_code != 200:
                    raise ServerRefused(_error_text(response.status_code, response.read().decode(errors="replace")))
                for event in _events(response.iter_lines()):
                    yield from _take(event, answer, time.perf_counter() - sent)
        except httpx.HTTPError as problem:
            raise ServerRefused(f"The connection to {self.url} failed: {problem or type(problem).__name__}.") from None
        if answer.finish_reason is None:
            raise ServerRefused(f"{self.url} ended the stream before the answer was finished.")


def _base_url(url: str) -> str:
    full = url if "://" in url else f"http://{url}"
    parts = urlsplit(full)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SetupError(f"--url {url!r} is not an HTTP address. Write it as http://127.0.0.1:8000.")
    return full.rstrip("/").removesuffix("/v1")


def _events(lines: Iterator[str]) -> Iterator[Mapping[str, Any]]:
    """The JSON objects of a server-sent event stream, up to ``[DONE]``; comments are skipped."""
    for line in lines:
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            return
        event = json.loads(data)
        if "error" in event:
            raise ServerRefused(str(event["error"].get("message", event["error"])))
        yield event


def _take(event: Mapping[str, Any], answer: Answer, now: float) -> Iterator[tuple[Channel, str]]:
    answer.usage = event.get("usage") or answer.usage
    answer.report = event.get("isotherm") or answer.report
    for choice in event.get("choices", ()):
        delta = choice.get("delta", {})
        answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
        reasoning = delta.get("reasoning_content") or delta.get("reasoning") or ""
        content = delta.get("content") or ""
        if reasoning or content:
            answer.first_token_s = now if answer.first_token_s is None else answer.first_token_s
            answer.last_token_s = now
        answer.reasoning += reasoning
        answer.content += content
        if reasoning:
            yield Channel.REASONING, reasoning
        if content:
            yield Channel.CONTENT, content


def _error_text(status: int, text: str) -> str:
    try:
        message = json.loads(text)["error"]["message"]
    except (ValueError, LookupError, TypeError):
        message = text.strip()[:300] or "no explanation"
    return f"The server refused ({status}): {message}"
