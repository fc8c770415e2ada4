"""Renders a model's chat template: Jinja in a sandbox, with a budget for time and memory.

A template comes with the model and its parameters from a client, so neither may hang the server:
see ``chat.jinja_sandbox``. Names and settings are those that Hugging Face's templates rely on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2

from isotherm.base.errors import RequestError, SetupError
from isotherm.chat.jinja_budget import TemplateTooExpensive
from isotherm.chat.jinja_sandbox import BudgetedEnvironment, render

OWN_NAMES = frozenset({"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"})
"""Variables that a request's ``chat_template_kwargs`` cannot set."""


class TemplateRefusal(Exception):
    """The template itself called ``raise_exception``."""


class ChatTemplate:
    """A compiled template. SetupError when it is no Jinja."""

    def __init__(self, source: str, *, bos_token: str | None, eos_token: str | None) -> None:
        self._tokens = {"bos_token": bos_token or "", "eos_token": eos_token or ""}
        environment = BudgetedEnvironment()
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = _strftime_now
        environment.filters["tojson"] = _to_json
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise SetupError(f"The model's chat template is broken in line {error.lineno}: {error.message}.") from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt as text. RequestError when the template refuses these messages or cannot cope with them."""
        variables = variables or {}
        _check_variables(variables)
        try:
            return render(
                self._template,
                {
                    **variables,
                    **self._tokens,
                    "messages": list(messages),
                    "tools": list(tools) or None,
                    "documents": None,
                    "add_generation_prompt": add_generation_prompt,
                },
            )
        except TemplateRefusal as error:
            raise _refused(f"The model's chat template does not accept these messages: {error}") from error
        except TemplateTooExpensive as error:
            raise _refused(f"The model's chat template needs too much {error} for these messages.") from error
        except (jinja2.TemplateError, *ORDINARY_ERRORS) as error:
            raise _refused(f"The model's chat template cannot render these messages: {error}") from error


ORDINARY_ERRORS = (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError)
"""What Python raises when a template meets values that its author did not think of (content that is null...)."""


def _refused(message: str) -> RequestError:
    return RequestError(message, param="messages", code="chat_template_error")


def _check_variables(variables: Mapping[str, Any]) -> None:
    for name, value in variables.items():
        if name in OWN_NAMES:
            raise RequestError(f"chat_template_kwargs must not set {name!r}.", param="chat_template_kwargs")
        # In Jinja the text "false" is true: thinking would be on for a client that switched it off.
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            raise RequestError(
                f"chat_template_kwargs.{name} is the text {value!r}; send {value.strip().lower()} without quotes.",
                param="chat_template_kwargs",
            )


def _raise(message: str) -> NoReturn:
    raise TemplateRefusal(message)


def _strftime_now(layout: str) -> str:
    return datetime.now().strftime(layout)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Unlike Jinja's own: no HTML escapes, characters as they are."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
