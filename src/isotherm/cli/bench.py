"""``isotherm bench``: speed and skills of any OpenAI-compatible server, or the kernels of this machine."""

from __future__ import annotations

import argparse
import json
import sys

from isotherm.base.errors import SetupError
from isotherm.bench.measures import Limits
from isotherm.bench.report import as_json, as_text
from isotherm.bench.session import Plan, Report, measure
from isotherm.bench.workloads import PromptLength, Workload
from isotherm.cli import bench_kernels, bench_skills
from isotherm.cli.flags import add_flags
from isotherm.cli.measured import measured
from isotherm.cli.numbers import number, positive, whole
from isotherm.cli.screen import harmless

EXIT_FINDINGS = 1


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser and its subcommands."""
    bench = subparsers.add_parser(
        "bench",
        help="measure a server's speed or skills, or this machine's kernels",
        description=__doc__,
        allow_abbrev=False,
    )
    kinds = bench.add_subparsers(title="measurements", dest="what", metavar="WHAT", required=True)
    serve = kinds.add_parser(
        "serve",
        help="throughput and latency at several levels of concurrency",
        description="Exit code 0: measured. 1: some requests failed or it was interrupted. 2: could not run.",
        allow_abbrev=False,
    )
    _add_load_flags(serve)
    _add_workload_flags(serve)
    serve.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    add_flags(serve, "bench")
    bench_skills.register(kinds)
    bench_kernels.register(kinds)


def _add_load_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("load")
    group.add_argument(
        "--concurrency", default="1,8,32", metavar="N,N,...", help="requests in flight, a level each [%(default)s]"
    )
    group.add_argument("--requests", metavar="N", help="requests a level [twice the concurrency, at least 8]")
    group.add_argument("--warmup", metavar="N", help="dropped requests before each level [the concurrency]")
    group.add_argument("--timeout", default="600", metavar="SECONDS", help="longest time for a request [%(default)s]")
    group.add_argument("--ttft-limit", metavar="MS", help="goodput counts requests with a first token within this")
    group.add_argument("--tpot-limit", metavar="MS", help="goodput counts requests with a TPOT within this")


def _add_workload_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("workload")
    group.add_argument("--model", metavar="NAME", help="model to ask for [the first that the server lists]")
    group.add_argument(
        "--prompt-tokens", default="64-192", metavar="N|LOW-HIGH", help="prompt length, about [%(default)s]"
    )
    group.add_argument("--max-tokens", default="128", metavar="N", help="longest answer [%(default)s]")
    group.add_argument("--seed", default="0", metavar="N", help="of the prompts and of sampling [%(default)s]")
    group.add_argument("--temperature", metavar="T", help="sampling temperature [not sent: the server's default]")
    group.add_argument("--ignore-eos", action="store_true", help="ask for full-length answers (vLLM, llama.cpp, ours)")


def run(args: argparse.Namespace) -> int:
    """Measure, print, and say by the exit code whether all went well."""
    if args.what == "kernels":
        return bench_kernels.run(args)
    if args.what == "skills":
        return bench_skills.run(args)
    report = measured(args, plan_of(args), measure)
    _print(report, as_object=args.json)
    return 0 if report.clean else EXIT_FINDINGS


def plan_of(args: argparse.Namespace) -> Plan:
    """The plan that the flags ask for; raises SetupError for a value that makes no sense."""
    temperature = None if args.temperature is None else number("--temperature", args.temperature)
    workload = Workload(
        prompt_tokens=prompt_length(args.prompt_tokens),
        max_tokens=whole("--max-tokens", args.max_tokens, 1),
        seed=whole("--seed", args.seed, 0),
        temperature=temperature,
        ignore_eos=args.ignore_eos,
    )
    return Plan(
        levels=[whole("--concurrency", part, 1) for part in args.concurrency.split(",")],
        workload=workload,
        limits=Limits(_milliseconds("--ttft-limit", args.ttft_limit), _milliseconds("--tpot-limit", args.tpot_limit)),
        requests=None if args.requests is None else whole("--requests", args.requests, 1),
        warmup=None if args.warmup is None else whole("--warmup", args.warmup, 0),
        model=args.model,
    )


def prompt_length(text: str) -> PromptLength:
    """``64`` or ``64-192``."""
    low, dash, high = text.partition("-")
    length = PromptLength(whole("--prompt-tokens", low, 1), whole("--prompt-tokens", high if dash else low, 1))
    if length.high < length.low:
        raise SetupError(f"--prompt-tokens {text} runs backwards. Write the smaller number first.")
    return length


def _milliseconds(flag: str, text: str | None) -> float | None:
    return None if text is None else positive(flag, text) / 1000


def _print(report: Report, *, as_object: bool) -> None:
    if as_object:
        print(json.dumps(as_json(report), indent=2, ensure_ascii=False))
    elif report.levels:
        print(harmless(as_text(report)))
    else:
        print("isotherm: interrupted before anything was measured", file=sys.stderr)
