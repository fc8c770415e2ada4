"""Runs pip to download one wheel, never to install it, and follows its progress."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path

from isotherm.base.errors import SetupError
from isotherm.model.progress import Progress

RAW_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
"""What ``--progress-bar raw`` prints, a line every quarter of a second."""


def pip_download(requirement: str, into: Path, size: int, progress: Progress) -> Path:
    """Download the wheel of ``requirement`` and return its path in ``into``.

    The wheel appears in ``into`` by a rename, so that what lies there is whole. ``size`` is what to
    expect in bytes until pip says it itself. Raises SetupError with pip's last words.
    """
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into, prefix="pip-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
        command += ["--disable-pip-version-check", "--progress-bar=raw", "--dest", folder, requirement]
        progress(f"Downloading {requirement}", 0, size)
        status, last_words = _run(command, requirement, progress)
        wheels = list(Path(folder).glob("*.whl"))
        if status != 0 or len(wheels) != 1:
            raise SetupError(
                f"pip could not download {requirement} (exit code {status}): {last_words or 'it said nothing'}. "
                "Check the network and pip's index settings (`python -m pip config list`), then try again."
            )
        return wheels[0].replace(into / wheels[0].name)


def _run(command: list[str], requirement: str, progress: Progress) -> tuple[int, str]:
    """Exit status and the last lines that were no progress."""
    words: deque[str] = deque(maxlen=5)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    assert process.stdout is not None
    try:
        for line in process.stdout:
            match = RAW_PROGRESS.match(line)
            if match:
                progress(f"Downloading {requirement}", int(match[1]), int(match[2]))
            elif line.strip():
                words.append(line.strip())
        return process.wait(), " / ".join(words)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
