"""What a figure must carry to mean something later: processor, versions, commit, command, date."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("isotherm", "torch", "numba", "numpy", "tokenizers", "fastapi", "uvicorn", "transformers")
TELLING_FLAGS = (
    *("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "sve", "bf16", "i8mm"),
)
"""Processor features that decide which kernels an engine may use."""


def facts() -> dict[str, Any]:
    """The machine and the code, as they are now."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", *neutral([os.path.relpath(sys.argv[0], REPOSITORY), *sys.argv[1:]])]),
        "commit": commit(),
        "cpu": _cpuinfo("model name") or platform.processor() or platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_flags": [flag for flag in TELLING_FLAGS if flag in _cpuinfo("flags").split()],
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load_average": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
    }


def commit() -> str:
    """Commit of the repository, with ``+changes`` when tracked files differ from it."""
    head = _git("rev-parse", "--short=12", "HEAD")
    return f"{head}+changes" if _git("status", "--porcelain", "--untracked-files=no") else head


def neutral(words: Sequence[str]) -> list[str]:
    """A command line without what only this machine knows: absolute paths keep their last part."""
    return [_neutral(word) for word in words]


def _neutral(word: str) -> str:
    if ":" in word and word.count("/") > 1 and "//" not in word:
        return ":".join(_neutral(part) for part in word.split(":"))
    name, equals, value = word.rpartition("=")
    return f"{name}{equals}{Path(value).name}" if value.startswith("/") else word


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _cpuinfo(key: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
