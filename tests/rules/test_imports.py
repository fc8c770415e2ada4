"""Which room may import which, and which may import torch: the house keeps its walls."""

import subprocess
import sys

import pytest

from rules.source import ROOMS, ROOT, imports, package_files, room_of

ALLOWED = {
    "base": set(),
    "settings": {"base"},
    "chat": {"base"},
    "policy": {"base"},
    "monitor": {"base"},
    "kernels": {"base"},
    "model": {"kernels", "base"},
    "cache": {"kernels", "base"},
    "engine": {"model", "cache", "chat", "kernels", "base"},
    "backends": {"engine", "chat", "base"},
    "server": {"base", "settings", "chat", "policy", "monitor"},
    "bench": {"base", "monitor", "chat"},
    "cli": set(ROOMS),
}
# Tokens to text is the engine's work, text to tokens and templates are not.
ENGINE_MAY_USE_OF_CHAT = {"isotherm.chat.detokenize", "isotherm.chat.stop", "isotherm.chat.tokenizer"}
# A tokenizer and a context length are read on the server's side; this module needs no torch.
BACKENDS_MAY_USE_OF_MODEL = {"isotherm.model.checkpoint"}
MAY_IMPORT_TORCH = {"kernels", "model", "cache", "engine"}
HEAVY = {"torch", "numba", "transformers"}
NETWORK = {"socket", "http", "urllib.request", "httpx", "aiohttp", "requests", "huggingface_hub"}
MUST_NOT_USE_THE_NETWORK = {"base", "settings", "chat", "policy", "monitor"}


def test_every_room_has_a_rule():
    assert set(ROOMS) <= set(ALLOWED), f"rooms without a rule: {set(ROOMS) - set(ALLOWED)}"


@pytest.mark.parametrize("path", package_files(), ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_a_module_imports_only_what_its_room_may(path):
    room = room_of(path)
    wrong = [f"line {line}: {name}" for name, line in imports(path) if not _may(room, name)]
    assert not wrong, f"{room or 'top level'} may not import {wrong}"


def _may(room: str, name: str) -> bool:
    parts = name.split(".")
    if parts[0] in HEAVY:
        return room in MAY_IMPORT_TORCH
    if room in MUST_NOT_USE_THE_NETWORK and any(name == top or name.startswith(top + ".") for top in NETWORK):
        return False
    if parts[0] != "isotherm" or len(parts) == 1:
        return True
    if parts[1] not in ROOMS:
        return parts[1] == "__version__"
    if room == "":
        return parts[1] == "cli"
    if room == "engine" and parts[1] == "chat":
        return name in ENGINE_MAY_USE_OF_CHAT
    if room == "backends" and parts[1] == "model":
        return name in BACKENDS_MAY_USE_OF_MODEL
    return parts[1] == room or parts[1] in ALLOWED[room]


@pytest.mark.parametrize(
    ("room", "name", "may"),
    [
        ("server", "isotherm.engine.plan", False),
        ("server", "isotherm.policy.resolve", True),
        ("policy", "torch", False),
        ("policy", "httpx", False),
        ("engine", "torch.nn", True),
        ("engine", "isotherm.chat.template", False),
        ("engine", "isotherm.chat.stop", True),
        ("backends", "isotherm.model.checkpoint", True),
        ("backends", "isotherm.model.llama", False),
        ("model", "isotherm.cache.pool", False),
        ("bench", "isotherm.server.app", False),
        ("cache", "isotherm.cli.main", False),
    ],
)
def test_the_rule_itself(room, name, may):
    assert _may(room, name) is may


@pytest.mark.parametrize("module", ["isotherm.cli.main", "isotherm.server.app", "isotherm.backends.embedded"])
def test_the_server_process_never_loads_torch(module):
    script = f"import sys, {module}; print(sorted({{'torch', 'numba', 'transformers'}} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[]"
