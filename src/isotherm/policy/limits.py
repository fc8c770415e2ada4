"""What fits into the context: the number of tokens that may be generated after a prompt."""

from __future__ import annotations

from dataclasses import dataclass

from isotherm.base.errors import RequestError


@dataclass(frozen=True, slots=True)
class Clamp:
    """A value that was reduced: what was asked, what is used, and why."""

    param: str
    asked: int
    used: int
    reason: str


def prompt_too_long(prompt_tokens: int, max_model_len: int) -> RequestError:
    """The refusal of a prompt that leaves no room; it names both numbers and never truncates."""
    return RequestError(
        f"The prompt has {prompt_tokens} tokens, but this model's context holds {max_model_len} "
        "for the prompt and the answer together. Shorten the prompt, or serve with a larger --max-model-len "
        "if the model allows it.",
        param="messages",
        code="context_length_exceeded",
    )


def fit(prompt_tokens: int, max_model_len: int, asked: int | None) -> tuple[int, Clamp | None]:
    """Tokens that may be generated, and the clamp if that is fewer than ``asked`` (None: as many as fit).

    Raises:
        RequestError: the prompt leaves no room for the first token (or does not fit, when none is asked for).
    """
    room = max_model_len - prompt_tokens
    if room < min(1, 1 if asked is None else asked):
        raise prompt_too_long(prompt_tokens, max_model_len)
    if asked is None:
        return room, None
    if asked <= room:
        return asked, None
    reason = f"max_tokens is {asked}, but {prompt_tokens} prompt tokens leave {room} of the context of {max_model_len}"
    return room, Clamp("max_tokens", asked, room, reason)
