"""Can a request be served at all? Checked before it is queued, by the server's side and by the engine."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from isotherm.base.errors import RequestError
from isotherm.base.sampling import SamplingParams
from isotherm.engine.options import Limits

RETRY_AFTER_SECONDS = 1


def check_request(tokens: Sequence[int], sampling: SamplingParams, limits: Limits) -> None:
    """Raise RequestError (400) if the prompt is empty or too long, or an id is outside the vocabulary."""
    if not tokens:
        raise RequestError("the prompt is empty; send at least one token", param="prompt", code="empty_prompt")
    _check_ids(tokens, "prompt", limits)
    _check_ids(sampling.logit_bias, "logit_bias", limits)
    _check_length(len(tokens), min(1, sampling.max_tokens), limits)


def _check_ids(ids: Collection[int], param: str, limits: Limits) -> None:
    if not ids or (min(ids) >= 0 and max(ids) < limits.vocab_size):
        return
    wrong = next(token for token in ids if not 0 <= token < limits.vocab_size)
    raise RequestError(
        f"token id {wrong} in {param} is outside the vocabulary of {limits.vocab_size} tokens",
        param=param,
        code="invalid_token_id",
    )


def _check_length(prompt: int, answer: int, limits: Limits) -> None:
    if prompt + answer <= limits.context:
        return
    if limits.context == limits.max_model_len:
        limit = f"the context window is {limits.max_model_len} tokens"
        remedy = "shorten the prompt"
    else:
        limit = f"the KV cache holds {limits.pool_tokens} tokens"
        remedy = "shorten the prompt, or start the server with more --kv-memory"
    raise RequestError(
        f"the prompt has {prompt} tokens, but {limit} and at least {answer} must stay for the answer; {remedy}",
        param="messages",
        code="context_length_exceeded",
    )


def check_queue(unfinished: int, limits: Limits) -> None:
    """Raise RequestError (429) if as many sequences run and wait as may."""
    if unfinished >= limits.max_num_seqs + limits.max_queue:
        raise RequestError(
            f"{limits.max_num_seqs} sequences are running and {limits.max_queue} are waiting; try again later",
            status=429,
            kind="rate_limit_error",
            code="queue_full",
            retry_after=RETRY_AFTER_SECONDS,
        )
