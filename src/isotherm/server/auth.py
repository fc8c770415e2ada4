"""API keys: any of several opens the API; comparing takes the same time whatever was sent."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from hashlib import sha256

from isotherm.base.errors import RequestError

_SCHEME = b"bearer "


class ApiKeys:
    """The keys that open the API. Digests are compared, so not even a key's length can be timed."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = tuple(sha256(key.encode()).digest() for key in keys)

    def check(self, authorization: bytes | None) -> None:
        """Passes when no keys are set or ``authorization`` is ``Bearer KEY`` with one of them.

        Raises:
            RequestError: 401 with code ``invalid_api_key``.
        """
        if not self._digests:
            return
        sent = authorization or b""
        key = sent[len(_SCHEME) :].strip() if sent[: len(_SCHEME)].lower() == _SCHEME else b""
        digest = sha256(key).digest()
        # Every key is compared, also after a match: the time must not tell which one it was.
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        if not any(matches) or not key:
            raise RequestError(
                "This server needs an API key: send the header 'Authorization: Bearer KEY' with one of its keys.",
                status=401,
                code="invalid_api_key",
            )
