"""Which stretched rotary embeddings are understood, and the check that their parameters are all there.

The inverse frequencies are computed where the network is built; here a description is turned into a
dict that has ``rope_type`` and every number that this type needs, or into a SetupError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isotherm.base.errors import SetupError

REQUIRED = {
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings"),
}
"""Numbers that each supported type cannot do without."""
OPTIONAL = {"yarn": ("beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim")}
FREQUENCY_FACTORS = "frequency_factors"
"""Our name for GGUF's ``rope_freqs.weight``: ``factors`` [head_dim / 2] divide the inverse frequencies."""


def check_rope_scaling(
    raw: Mapping[str, Any] | None, max_position_embeddings: int, where: str
) -> dict[str, Any] | None:
    """A validated copy, None for plain rotary embeddings.

    Old files write ``type`` for ``rope_type``; yarn may leave out the original context, which then is
    ``max_position_embeddings``. ``dynamic`` is refused: its frequencies move while a sequence grows, so
    keys that are already cached would be rotated by other angles than new queries.
    """
    if not raw:
        return None
    kind = str(raw.get("rope_type", raw.get("type", "default")))
    if kind == "default":
        return None
    if kind not in REQUIRED:
        known = ", ".join(sorted(REQUIRED))
        raise SetupError(f"{where}: rope scaling {kind!r} is not supported; supported are default, {known}.")
    values = dict(raw)
    if kind == "yarn":
        values.setdefault("original_max_position_embeddings", max_position_embeddings)
    checked: dict[str, Any] = {"rope_type": kind}
    for name in REQUIRED[kind] + OPTIONAL.get(kind, ()):
        if values.get(name) is None and name not in REQUIRED[kind]:
            continue
        checked[name] = _positive(values.get(name), f"{where}: {name} of rope scaling {kind!r}")
    return checked


def _positive(value: Any, what: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise SetupError(f"{what} must be a positive number, not {value!r}.")
    return value
