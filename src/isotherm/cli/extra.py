"""The optional part ``isotherm[engine]``: is it installed, and what to say when it is not."""

from __future__ import annotations

from importlib.util import find_spec

from isotherm.base.errors import SetupError

MODULES = ("torch", "numpy", "numba", "gguf", "safetensors", "huggingface_hub")


def require_engine() -> None:
    """Raises SetupError unless every module of the extra can be found; none is imported."""
    for name in MODULES:
        if find_spec(name) is None:
            raise SetupError(_advice(name))


def missing_extra(error: Exception) -> str | None:
    """What to say if the error is the absence of one of the extra's modules; None for any other."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return _advice(name) if name in MODULES else None


def _advice(name: str) -> str:
    return f"This command needs the engine, and its module {name} is not installed. Run: pip install 'isotherm[engine]'"
