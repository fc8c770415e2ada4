"""Rates for people (a row a probe, a column a mode) and for programs (one JSON object)."""

from __future__ import annotations

from dataclasses import asdict
from statistics import mean
from typing import Any

from isotherm.bench.skills.probes import PROBES
from isotherm.bench.skills.rates import CONFIDENCE, Rate
from isotherm.bench.skills.session import Report


def as_json(report: Report) -> dict[str, Any]:
    """Shares from 0 to 1, tokens as means, absent figures null."""
    plan = report.plan
    return {
        "schema_version": 1,
        "url": report.url,
        "model": report.model,
        "interrupted": report.interrupted,
        "items": plan.items,
        "seed": plan.seed,
        "sampling": asdict(plan.sampling),
        "confidence": CONFIDENCE,
        "rates": [{**asdict(rate), "mode": str(rate.mode), "share": rate.share} for rate in report.rates],
        "failures": sorted(report.failures),
    }


def as_text(report: Report) -> str:
    """Each cell is a share and its interval in percent."""
    modes = list(report.plan.modes)
    cells = {(rate.probe, rate.mode): rate for rate in report.rates}
    names = [name for name in PROBES if any(probe == name for probe, _ in cells)]
    rows = [["probe", *(f"thinking {mode}" for mode in modes)]]
    rows += [[name, *(_cell(cells.get((name, mode))) for mode in modes)] for name in names]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([f"{report.model} at {report.url}", *lines, "", *_remarks(report)])


def _cell(rate: Rate | None) -> str:
    if rate is None or rate.share is None:
        return "-"
    extra = f", {rate.starved} starved" if rate.starved else ""
    return f"{rate.share:4.0%} [{rate.low:.0%}, {rate.high:.0%}]{extra}"


def _remarks(report: Report) -> list[str]:
    plan, given = report.plan, report.plan.sampling.temperature
    how = "the server's temperature" if given is None else f"temperature {given:g}"
    lines = [f"Right answers with their {CONFIDENCE:.0%} intervals; {plan.items} new items a cell, {how}."]
    for mode in plan.modes:
        thought = [rate.reasoning_tokens for rate in report.rates if rate.mode is mode and rate.reasoning_tokens]
        if thought:
            lines.append(f"Thinking {mode}: {mean(thought):.0f} tokens on average.")
    lines += [f"Failed: {text}" for text in sorted(report.failures)]
    if report.interrupted:
        lines.append("Interrupted: what is missing was not asked.")
    return lines
