"""Conversations of DeepSeek-V4, which has no template: its makers' own library lays them out.

The library keeps structure and text apart: what a client writes is encoded without the added vocabulary, so a typed
``<｜User｜>`` is only text. Thinking is on unless the request says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isotherm.base.effort import DEFAULT_WORD, Effect, EffortTexts
from isotherm.base.errors import RequestError, SetupError
from isotherm.base.request import ChatPrompt

ENCODING = "deepseek-v4"
"""``TokenizerSpec.chat_encoding`` of models that speak it."""
NAME = "DeepSeek-V4-Pro"
"""The one V4 model that the library knows by name; the layout of Flash is the same."""
SWITCHES = ("thinking", "enable_thinking")
EFFORT = "reasoning_effort"
LIBRARY_WORDS = {Effect.OFF: "none", Effect.NO_TEXT: "low", Effect.MAXIMUM: "high", Effect.BEYOND: "max"}
"""The library knows the newer table alone: these are the words that have an effect in it."""
THINK_TAGS = "<think></think>"
"""What a prompt's end is read with, in place of a template."""


class DeepseekV4Chat:
    """Renders and encodes for one tokenizer (its description as JSON text) and one meaning of effort words."""

    def __init__(self, tokenizer_json: bytes, efforts: EffortTexts) -> None:
        try:
            import deepseek_recipe  # noqa: PLC0415  (only models of this family need it)
        except ImportError as error:
            raise SetupError(
                "DeepSeek-V4 needs the package deepseek-recipe for its prompts. Run: pip install 'isotherm[engine]'"
            ) from error
        self._library: Any = deepseek_recipe
        self._efforts = efforts
        tokenizer = deepseek_recipe.Tokenizer.from_str(tokenizer_json.decode("utf-8"))
        self._encoding = deepseek_recipe.DeepseekV4Encoding().with_tokenizer(tokenizer)

    def encode(self, prompt: ChatPrompt) -> tuple[list[int], str]:
        """Ids and the rendered text; raises RequestError that says what the library refuses."""
        if not prompt.add_generation_prompt:
            raise RequestError(
                "DeepSeek-V4's layout always ends with the answer's beginning; send add_generation_prompt true.",
                param="add_generation_prompt",
            )
        body: dict[str, Any] = {"model": NAME, "messages": [dict(message) for message in prompt.messages]}
        body |= _thinking(prompt, self._efforts)
        if prompt.tools:
            body["tools"] = [dict(tool) for tool in prompt.tools]
            body["tool_choice"] = _choice(prompt, body)
        try:
            request = self._library.ChatCompletionRequest(body).convert(self._library.ConversionOptions())
            conversation = request.conversation
            return self._encoding.encode(conversation), self._encoding.render_conversation(conversation).prompt
        except (self._library.ConversionError, ValueError, RuntimeError) as error:
            raise RequestError(f"DeepSeek-V4 cannot take this conversation: {error}", param="messages") from error


def _choice(prompt: ChatPrompt, body: Mapping[str, Any]) -> str | dict[str, Any]:
    """The prompt begins a call that has to come; while the model thinks it cannot."""
    thinks = body[EFFORT] != LIBRARY_WORDS[Effect.OFF] and body.get("thinking") != {"type": "disabled"}
    if isinstance(prompt.tool_choice, str) and prompt.tool_choice != "required":
        return prompt.tool_choice
    if thinks:
        raise RequestError(
            "tool_choice: DeepSeek-V4 cannot be made to call a function while it thinks; send "
            'chat_template_kwargs {"thinking": false}, or tool_choice "auto".',
            param="tool_choice",
            code="unsupported_parameter",
        )
    return prompt.tool_choice if isinstance(prompt.tool_choice, str) else dict(prompt.tool_choice)


def _thinking(prompt: ChatPrompt, efforts: EffortTexts) -> dict[str, Any]:
    """The request's ``chat_template_kwargs`` as the library's fields; RequestError for any other."""
    fields: dict[str, Any] = {}
    word = DEFAULT_WORD
    for name, value in prompt.template_kwargs.items():
        if name in SWITCHES and isinstance(value, bool):
            fields["thinking"] = {"type": "enabled" if value else "disabled"}
        elif name == EFFORT and isinstance(value, str) and value in efforts.words:
            word = value
        else:
            raise RequestError(
                f"chat_template_kwargs.{name} {value!r} means nothing to DeepSeek-V4; it takes "
                f"{' or '.join(SWITCHES)} (true or false) and {EFFORT} ({', '.join(efforts.words)}).",
                param="chat_template_kwargs",
            )
    effect = efforts.words[word]
    if effect is Effect.OFF and fields.get("thinking") == {"type": "enabled"}:
        # The switch wins over the word. The library would fall back on its own default, which is the newer table's.
        effect = efforts.words[DEFAULT_WORD]
    return {**fields, EFFORT: LIBRARY_WORDS[effect]}
