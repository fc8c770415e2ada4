"""The API keys of a run: those of the setting api_keys and those in the file api_key_file."""

from __future__ import annotations

from pathlib import Path

from isotherm.base.errors import SetupError
from isotherm.settings.load import Settings


def api_keys(settings: Settings) -> tuple[str, ...]:
    """Every key that a client may present, each once; empty when neither setting is given.

    Raises:
        SetupError: the file cannot be read, or holds no key (which would silently open the server).
    """
    keys: list[str] = list(settings["api_keys"])
    if settings["api_key_file"] is not None:
        keys += _read(Path(settings["api_key_file"]), settings.entry("api_key_file").winner.where)
    for key in keys:
        if not key.isascii() or any(char.isspace() or not char.isprintable() for char in key):
            raise SetupError("An API key holds a blank or a character outside ASCII: HTTP headers cannot carry it.")
    return tuple(dict.fromkeys(keys))


def _read(path: Path, where: str) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise SetupError(f"{where}: cannot read the key file {path}: {problem}.") from None
    keys = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not keys:
        raise SetupError(f"{where}: the key file {path} holds no key. Add one a line, or drop the setting.")
    return keys
