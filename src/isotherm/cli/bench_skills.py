"""``isotherm bench skills``: how often a server's model solves new items of the tasks that Nano was taught."""

from __future__ import annotations

import argparse
import json
import sys

from isotherm.base.errors import SetupError
from isotherm.bench.skills.ask import Sampling
from isotherm.bench.skills.item import Mode
from isotherm.bench.skills.probes import PROBES
from isotherm.bench.skills.report import as_json, as_text
from isotherm.bench.skills.session import Plan, Report, measure
from isotherm.cli.flags import add_flags
from isotherm.cli.measured import measured
from isotherm.cli.numbers import number, whole
from isotherm.cli.screen import harmless
from isotherm.settings.load import nearest

EXIT_FINDINGS = 1


def register(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the measurement to those of ``isotherm bench``."""
    skills = kinds.add_parser(
        "skills",
        help="how often the model's answers are right, by skill and mode of thinking",
        description="Every item is new and its answer is checked by a program. Exit code 0: measured. "
        "1: some requests failed or it was interrupted. 2: could not run.",
        allow_abbrev=False,
    )
    group = skills.add_argument_group("items")
    group.add_argument("--probes", metavar="NAME,NAME,...", help=f"of {', '.join(PROBES)} [all]")
    group.add_argument("--modes", metavar="MODE,MODE,...", help=f"thinking: {', '.join(Mode)} [all]")
    group.add_argument("--items", default="40", metavar="N", help="of each probe in each mode [%(default)s]")
    group.add_argument("--seed", default="0", metavar="N", help="of the items, and of sampling [%(default)s]")
    group = skills.add_argument_group("requests")
    group.add_argument("--model", metavar="NAME", help="model to ask for [the first that the server lists]")
    group.add_argument("--max-tokens", metavar="N", help="longest answer, thinking included [not sent]")
    group.add_argument("--temperature", metavar="T", help="sampling temperature [not sent: the server's default]")
    group.add_argument("--concurrency", default="4", metavar="N", help="requests in flight [%(default)s]")
    group.add_argument("--timeout", default="600", metavar="SECONDS", help="longest time for a request [%(default)s]")
    skills.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    add_flags(skills, "bench")


def run(args: argparse.Namespace) -> int:
    """Ask, judge, print, and say by the exit code whether every request was answered."""
    report = measured(args, plan_of(args), measure)
    _print(report, as_object=args.json)
    return 0 if report.clean else EXIT_FINDINGS


def plan_of(args: argparse.Namespace) -> Plan:
    """The plan that the flags ask for; raises SetupError for a value that makes no sense."""
    seed = whole("--seed", args.seed, 0)
    sampling = Sampling(
        max_tokens=None if args.max_tokens is None else whole("--max-tokens", args.max_tokens, 1),
        temperature=None if args.temperature is None else number("--temperature", args.temperature),
        seed=seed,
    )
    return Plan(
        probes=_names("--probes", args.probes, tuple(PROBES)),
        modes=[Mode(name) for name in _names("--modes", args.modes, tuple(Mode))],
        items=whole("--items", args.items, 1),
        sampling=sampling,
        seed=seed,
        concurrency=whole("--concurrency", args.concurrency, 1),
        model=args.model,
    )


def _names(flag: str, text: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    if text is None:
        return known
    for name in text.split(","):
        if name not in known:
            raise SetupError(f"{flag}: there is no {name!r}.{nearest(name, known)} There are {', '.join(known)}.")
    return tuple(dict.fromkeys(text.split(",")))


def _print(report: Report, *, as_object: bool) -> None:
    if as_object:
        print(json.dumps(as_json(report), indent=2, ensure_ascii=False))
    elif report.rates:
        print(harmless(as_text(report)))
    else:
        print("isotherm: interrupted before anything was measured", file=sys.stderr)
