"""``isotherm chat``: talk to a server; a conversation on a terminal, a filter in a pipe.

One prompt (as an argument, or everything on a piped stdin) gives one answer on stdout and ends.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import closing

from isotherm.base.errors import SetupError
from isotherm.base.outcome import Channel
from isotherm.cli.chat_client import Answer, ChatClient, ServerRefused
from isotherm.cli.conversation import CommandError, Conversation, origin_lines, parse_value
from isotherm.cli.flags import add_flags, settings_of
from isotherm.cli.screen import Screen

_BLOCK = '"""'


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser(
        "chat", help="talk to a server from the terminal", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("prompt", nargs="?", help="ask this, print the answer and end")
    parser.add_argument("--model", help="name of the model to ask [the first that the server lists]")
    parser.add_argument("--system", help="system message")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a sampling value, for example temperature=0.6"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one answer as a JSON object (needs a prompt or a pipe)"
    )
    add_flags(parser, "chat")


def run(args: argparse.Namespace) -> int:
    """Talk until the user leaves, or answer once."""
    settings = settings_of("chat", args)
    screen = Screen()
    values = dict(_assignment(item) for item in args.set)
    prompt = _prompt(args)
    client = ChatClient(settings["url"], settings["api_key"])
    try:
        talk = Conversation(args.model or client.model(), args.system, values)
        if prompt is None:
            _converse(client, talk, screen)
        elif args.json:
            print(json.dumps(_whole(client, talk, prompt).as_json(), ensure_ascii=False))
        else:
            _once(client, talk, screen, prompt)
    finally:
        client.close()
    return 0


def _prompt(args: argparse.Namespace) -> str | None:
    """What to ask once, or None for a conversation. A piped text follows a prompt given as argument."""
    piped = "" if sys.stdin.isatty() else sys.stdin.read()
    parts = [part for part in (args.prompt, piped.strip()) if part]
    if parts:
        return "\n\n".join(parts)
    if args.json or not sys.stdin.isatty():
        raise SetupError("There is nothing to ask: give a prompt as argument or on stdin.")
    return None


def _assignment(text: str) -> tuple[str, object]:
    name, _, value = text.partition("=")
    return name, parse_value(name, value)


def _converse(client: ChatClient, talk: Conversation, screen: Screen) -> None:
    screen.talk(f"{talk.model} at {client.url}. /help lists commands, Ctrl-D leaves.")
    for line in _lines(screen):
        if line == "/quit":
            return
        try:
            if line.startswith("/"):
                screen.talk(talk.command(line))
            else:
                _ask(client, talk, screen, line)
        except (ServerRefused, CommandError) as problem:
            screen.talk(str(problem))


def _lines(screen: Screen) -> Iterator[str]:
    """What the user types, a message each, until the input ends. Ctrl-C forgets the line."""
    import readline  # noqa: F401, PLC0415  importing it gives input() editing and history

    while True:
        try:
            text = input("> ")
            if text.startswith(_BLOCK):
                text = _block(text)
        except KeyboardInterrupt:
            screen.talk("\n(/quit or Ctrl-D leaves)")
            continue
        except EOFError:
            screen.talk("")
            return
        if text.strip():
            yield text.strip()


def _block(first: str) -> str:
    lines = [first.removeprefix(_BLOCK)]
    while not lines[-1].endswith(_BLOCK):
        lines.append(input(". "))
    return "\n".join(lines).removesuffix(_BLOCK)


def _ask(client: ChatClient, talk: Conversation, screen: Screen, text: str) -> None:
    """One turn of a conversation: Ctrl-C stops the answer and keeps what came until then."""
    answer = Answer()
    try:
        _show(client, talk, screen, text, answer)
    except KeyboardInterrupt:
        answer.finish_reason = "stopped by Ctrl-C"
    if answer.content:
        talk.add(text, answer.content)
    talk.report = answer.report or talk.report
    screen.talk("\n".join(_figures(answer)))


def _show(client: ChatClient, talk: Conversation, screen: Screen, text: str, answer: Answer) -> None:
    """Print an answer as it comes; reasoning is dim and stands apart."""
    shown = Channel.CONTENT
    with closing(client.stream(talk.body(text), answer)) as pieces:
        try:
            for channel, piece in pieces:
                if shown is Channel.REASONING and channel is Channel.CONTENT:
                    screen.answer("\n\n")
                shown = channel
                screen.answer(piece, dim=channel is Channel.REASONING)
        finally:
            if answer.content or answer.reasoning:
                screen.answer("\n")


def _once(client: ChatClient, talk: Conversation, screen: Screen, text: str) -> None:
    answer = Answer()
    _show(client, talk, screen, text, answer)
    if screen.talkative:
        screen.talk("\n".join(_figures(answer)))


def _whole(client: ChatClient, talk: Conversation, text: str) -> Answer:
    answer = Answer()
    for _ in client.stream(talk.body(text), answer):
        pass
    return answer


def _figures(answer: Answer) -> list[str]:
    speed, first = answer.tokens_per_second, answer.first_token_s
    parts = [
        f"{answer.usage['completion_tokens']} tokens" if answer.usage else "",
        f"{speed:.1f} tokens/s" if speed else "",
        f"first token after {first:.2f} s" if first is not None else "",
        f"finish: {answer.finish_reason}",
    ]
    notes = [f"warning   {item.get('message')}" for item in answer.report.get("warnings", ())]
    notes += [
        f"clamped   {item.get('param')} from {item.get('asked')} to {item.get('used')}: {item.get('reason')}"
        for item in answer.report.get("clamped", ())
    ]
    return [" · ".join(part for part in parts if part), *origin_lines(answer.report), *notes]
