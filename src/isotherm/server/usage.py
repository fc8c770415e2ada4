"""Token counts of a request: a prompt counts once however many choices it has, generated tokens all count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isotherm.base.outcome import Usage


def total(usages: Sequence[Usage], n: int) -> Usage:
    """The sum over a request's choices, ordered by prompt, then by choice (``n`` each)."""
    firsts = usages[::n]
    return Usage(
        prompt_tokens=sum(usage.prompt_tokens for usage in firsts),
        completion_tokens=sum(usage.completion_tokens for usage in usages),
        cached_tokens=sum(usage.cached_tokens for usage in firsts),
        reasoning_tokens=sum(usage.reasoning_tokens for usage in usages),
    )


def usage_object(usage: Usage) -> dict[str, Any]:
    """The protocol's shape."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
