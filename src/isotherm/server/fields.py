"""What happens to each request field that no schema declares: refused, ignored, or reported.

No field is silent. A field that would change the output and is not honoured is refused with 400, unless
its value is the one that we act by anyway (``neutral``). Fields that cannot change the output are
accepted and ignored. Everything else is a warning in the answer, and 400 in strict mode.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from pydantic import BaseModel

from isotherm.base.errors import RequestError
from isotherm.server.schemas.base import Body

MAX_WARNINGS = 20
_LONGEST_NAME = 64
_ENGINE = "This engine does not do that; leave the field out."
_TOOLS = "Functions are called on /v1/chat/completions alone; leave the field out."
_OLD_TOOLS = "Send tools and tool_choice, the newer names."
_FORMAT = "Constrained output is not served; ask for the format in the prompt, or leave the field out."
_THINKING = "Reasoning is switched by the model's template here: send chat_template_kwargs instead."
_TEXT = "This server generates text alone; leave the field out."
_WARPER = "Use temperature, top_p, top_k, min_p and the penalties to shape sampling."


@dataclass(frozen=True, slots=True)
class Warning:
    """Something about a request that its sender should know; it goes into ``isotherm.warnings``."""

    param: str
    message: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A field that changes the output: the values that mean what we do anyway, and what to do instead."""

    hint: str
    neutral: tuple[Any, ...] = ()


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _same(names: str, refusal: Refusal) -> dict[str, Refusal]:
    return dict.fromkeys(_names(names), refusal)


REFUSED: Mapping[str, Refusal] = {
    "tools": Refusal(_TOOLS, ([],)),
    "tool_choice": Refusal(_TOOLS, ("none", "auto")),
    "parallel_tool_calls": Refusal(_TOOLS, (True, False)),
    "functions": Refusal(_OLD_TOOLS, ([],)),
    "function_call": Refusal(_OLD_TOOLS, ("none", "auto")),
    "response_format": Refusal(_FORMAT, ({"type": "text"},)),
    **_same(
        "guided_json guided_regex guided_choice guided_grammar guided_decoding_backend structured_outputs "
        "structural_tag grammar json_schema ebnf regex",
        Refusal(_FORMAT),
    ),
    "modalities": Refusal(_TEXT, (["text"],)),
    **_same("audio mm_processor_kwargs", Refusal(_TEXT)),
    **_same("prediction web_search_options verbosity", Refusal(_ENGINE)),
    **_same(
        "reasoning_effort reasoning thinking enable_thinking thinking_budget thinking_token_budget max_thinking_tokens",
        Refusal(_THINKING),
    ),
    **_same("include_reasoning separate_reasoning stream_reasoning", Refusal(_ENGINE, (True,))),
    "suffix": Refusal("Filling in the middle is not served; leave the field out.", ("",)),
    "best_of": Refusal("Send n and choose on your side.", (1,)),
    **_same("use_beam_search early_stopping", Refusal("Beam search is not served; use n.", (False,))),
    "length_penalty": Refusal("Beam search is not served; use n.", (1, 1.0)),
    **_same(
        "typical_p typ_p top_a tfs epsilon_cutoff eta_cutoff smoothing_factor dynatemp_range mirostat "
        "mirostat_mode mirostat_tau mirostat_eta dry_multiplier dry_base dry_allowed_length "
        "dry_sequence_breakers xtc_probability xtc_threshold repeat_last_n repeat_penalty samplers",
        Refusal(_WARPER),
    ),
    **_same("bad_words allowed_token_ids logits_processors custom_logit_processor", Refusal("Use logit_bias.")),
    **_same("custom_params vllm_xargs repetition_detection lora_path documents chat_template", Refusal(_ENGINE)),
    "prompt_logprobs": Refusal("Use /v1/completions with echo and logprobs."),
    **_same("stop_regex stop_regex_str", Refusal("Use stop.")),
    **_same("skip_special_tokens", Refusal("Special tokens are never part of the text.", (True,))),
    **_same("include_stop_str_in_output no_stop_trim", Refusal("The stop text is never part of the answer.", (False,))),
    **_same("return_token_ids return_tokens_as_token_ids", Refusal("Use /tokenize on the answer.", (False,))),
    **_same("continue_final_message echo", Refusal(_ENGINE, (False,))),
    "truncate_prompt_tokens": Refusal("A prompt is never truncated here; shorten it on your side."),
    **_same("n_predict max_new_tokens max_output_tokens max_length", Refusal("Send max_tokens.")),
    "cache_salt": Refusal("The prefix cache is not partitioned here; leave the field out."),
}

IGNORED: frozenset[str] = _names(
    "store metadata user service_tier safety_identifier prompt_cache_key prompt_cache_retention "
    "priority request_id rid session_id cache_prompt spaces_between_special_tokens add_special_tokens"
)


def review(body: Body, *, strict: bool) -> list[Warning]:
    """Holds the fields that the schema does not know against the lists above, nested objects included.

    Raises:
        RequestError: a field that changes the output; in strict mode also an unknown one.
    """
    names = [*type(body).model_fields, *REFUSED, *IGNORED]
    unknown = []
    for name, value in (body.model_extra or {}).items():
        refusal = REFUSED.get(name)
        if refusal is not None:
            _check_neutral(name, value, refusal)
        elif name not in IGNORED:
            unknown.append((name, names))
    inside = (
        (f"{path}.{name}", list(type(part).model_fields))
        for path, part in _parts(body)
        for name in part.model_extra or ()
    )
    # Looking for the name that was meant is slow; a body may have a hundred thousand wrong ones.
    warnings = [_unknown(path, known) for path, known in islice(chain(unknown, inside), MAX_WARNINGS)]
    if strict and warnings:
        first = warnings[0]
        raise RequestError(f"{first.message} This server is strict.", param=first.param, code="unknown_field")
    return warnings


def _check_neutral(name: str, value: Any, refusal: Refusal) -> None:
    if value is None or any(value == neutral and type(value) is type(neutral) for neutral in refusal.neutral):
        return
    raise RequestError(
        f"{name} would change the answer and is not honoured with this value. {refusal.hint}",
        param=name,
        code="unsupported_parameter",
    )


def _unknown(path: str, known: list[str]) -> Warning:
    path = path if len(path) <= _LONGEST_NAME else path[:_LONGEST_NAME] + "..."
    near = difflib.get_close_matches(path.rpartition(".")[2], known, n=1, cutoff=0.75)
    suggestion = f" Did you mean {near[0]}?" if near else ""
    return Warning(path, f"{path} is not a field that this server knows; it had no effect.{suggestion}")


def _parts(body: BaseModel, path: str = "") -> Iterator[tuple[str, BaseModel]]:
    """The models inside ``body`` with their paths, for example ``messages[0]``."""
    for name in type(body).model_fields:
        value = getattr(body, name)
        here = f"{path}.{name}" if path else name
        items = enumerate(value) if isinstance(value, list) else ()
        found = [(here, value), *((f"{here}[{index}]", item) for index, item in items)]
        for where, part in found:
            if isinstance(part, BaseModel):
                yield where, part
                yield from _parts(part, where)
