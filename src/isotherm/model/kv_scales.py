"""Scales that a checkpoint brings for a quantised KV cache. No cache here uses them, and people are told so."""

from __future__ import annotations

import re
from collections.abc import Mapping

from isotherm.model.tensors import TensorSource

_NAME = re.compile(r"\.(?:kv?|v)_scale$|\.[kv]_proj\.output_scale$")
"""``self_attn.k_scale``, ``self_attn.attn.v_scale``, ``k_proj.k_scale``, ``self_attn.kv_scale``: one number a layer."""


def without_kv_scales(
    found: Mapping[str, TensorSource], instead: str
) -> tuple[dict[str, TensorSource], tuple[str, ...]]:
    """All other tensors, and a notice if there were some. ``instead`` says what this model's cache does."""
    scales = [name for name in found if _NAME.search(name)]
    if not scales:
        return dict(found), ()
    rest = dict(found)
    for name in scales:
        del rest[name]
    many = f"{len(scales)} scales for a quantised KV cache ({scales[0]}{' and so on' if scales[1:] else ''})"
    return rest, (f"{many} are not used: {instead}",)
