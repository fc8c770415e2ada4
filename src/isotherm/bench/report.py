"""A measurement for people (a table and what to know about it) and for programs (one JSON object)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from isotherm.bench.measures import Level, Spread
from isotherm.bench.session import WARMUP_TOKENS, Report

MICRO = 1e6


def as_json(report: Report) -> dict[str, Any]:
    """Everything measured; times in seconds, absent figures null."""
    workload = report.plan.workload
    return {
        "url": report.url,
        "model": report.model,
        "interrupted": report.interrupted,
        "workload": {**asdict(workload), "prompt_tokens": str(workload.prompt_tokens)},
        "limits": asdict(report.plan.limits),
        "warmup": {"requests": report.warmup_requests, "max_tokens": min(WARMUP_TOKENS, workload.max_tokens)},
        "levels": [_level_json(level) for level in report.levels],
    }


def _level_json(level: Level) -> dict[str, Any]:
    spreads = {name: _spread_json(spread) for name, spread in level.spreads.items()}
    rest = {name: value for name, value in asdict(level).items() if name != "spreads"}
    return {**rest, **spreads}


def _spread_json(spread: Spread | None) -> dict[str, float] | None:
    if spread is None:
        return None
    return {"mean": spread.mean, **{f"p{percent}": value for percent, value in spread.percentiles.items()}}


def as_text(report: Report) -> str:
    """A table with a row a level, then remarks."""
    rows = [list(_columns(report)), *([cell(level) for cell in _columns(report).values()] for level in report.levels)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([f"{report.model} at {report.url}", *lines, "", *_remarks(report)])


def _columns(report: Report) -> dict[str, Callable[[Level], str]]:
    columns: dict[str, Callable[[Level], str]] = {
        "at once": lambda level: str(level.concurrency),
        "requests": lambda level: str(level.counted),
        "tokens/s": lambda level: _number(level.tokens_per_second),
    }
    if any(level.spreads["ttft_reasoning"] for level in report.levels):
        columns["TTFT reasoning p50/p99 ms"] = lambda level: _pair(level.spreads["ttft_reasoning"])
    columns |= {
        "TTFT answer p50/p99 ms": lambda level: _pair(level.spreads["ttft_answer"]),
        "TPOT p50/p99 ms": lambda level: _pair(level.spreads["tpot"]),
        "ITL p50/p99 ms": lambda level: _pair(level.spreads["itl"]),
        "E2E p50/p99 s": lambda level: _pair(level.spreads["e2e"], unit=1.0, digits=2),
    }
    if report.plan.limits.given:
        columns["good req/s"] = lambda level: _number(level.goodput, 2)
    return columns | {
        "degenerate": lambda level: str(level.degenerate),
        "failed": lambda level: str(level.failed),
        "client CPU": lambda level: f"{level.client_cpu_seconds / level.seconds:.1%}" if level.seconds else "-",
    }


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _pair(spread: Spread | None, unit: float = 1000.0, digits: int = 1) -> str:
    if spread is None:
        return "-"
    return f"{spread.percentiles[50] * unit:.{digits}f}/{spread.percentiles[99] * unit:.{digits}f}"


def _remarks(report: Report) -> list[str]:
    workload, levels = report.plan.workload, report.levels
    temperature = "the server's default" if workload.temperature is None else f"{workload.temperature:g}"
    prompt = [level.prompt_tokens / level.counted for level in levels if level.counted]
    mean = f" (mean {sum(prompt) / len(prompt):.0f} by usage)" if prompt else ""
    remarks = [
        f"Prompts of {workload.prompt_tokens} tokens{mean}, answers of up to {workload.max_tokens} tokens, "
        f"temperature {temperature}, seed {workload.seed}, ignore_eos {'on' if workload.ignore_eos else 'off'}.",
        f"Dropped: {report.warmup_requests} warm-up requests of up to {WARMUP_TOKENS} tokens, and 2 to calibrate "
        "prompt lengths.",
    ]
    if any(level.degenerate for level in levels):
        remarks.append("Degenerate answers run in a circle; they are in no figure.")
    remarks += [f"Failed: {text}" for text in sorted({text for level in levels for text in level.failures})]
    if report.interrupted:
        remarks.append("Interrupted: the last row holds what had ended by then.")
    return remarks
