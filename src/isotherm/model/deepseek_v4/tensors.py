"""A DeepSeek-V4 checkpoint's tensors by the release's names, weights and their scales brought together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from isotherm.base.errors import SetupError
from isotherm.model.deepseek_v4.config import DeepseekV4Config
from isotherm.model.deepseek_v4.names import from_transformers
from isotherm.model.low_precision import (
    E4M3,
    FP4_GROUP,
    FP8_BLOCK,
    NVFP4_GROUP,
    Floats,
    fp4_weight,
    fp8_weight,
    from_e8m0,
)
from isotherm.model.tensors import PLAIN, Bytes, TensorSource

DRAFT = "mtp."
"""Begins the names of draft blocks."""
CODES = ("F8_E4M3", "I8", "U8")
"""Kinds that are no numbers without scales."""
SCALE_KINDS = ("F8_E8M0", "F32", "BF16", "F16")
"""How scales of FP8 and FP4 weights may be stored: as powers of two or as numbers."""
ROUTES = "tid2eid"
"""Ends the name of a table of experts by token id, the one tensor of whole numbers."""
NVFP4_SCALES = (".weight_scale", ".weight_scale_2", ".input_scale")


class ScaledTensor(TensorSource):
    """A weight that is stored with scales; ``shape`` is that of the values."""

    def __init__(
        self, kind: str, shape: tuple[int, ...], parts: list[TensorSource], decode: Callable[[], Floats]
    ) -> None:
        self.kind, self.shape = kind, shape
        self._parts, self._decode = parts, decode

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def raw(self) -> Bytes:
        """The codes, without their scales."""
        return self._parts[0].raw()

    def dequantize(self) -> Floats:
        return self._decode()


class Slice(TensorSource):
    """One expert's rows of a fused tensor [experts, rows, columns]."""

    def __init__(self, whole: TensorSource, expert: int, rows: slice) -> None:
        self._whole, self._expert, self._rows = whole, expert, rows
        self.kind = whole.kind
        self.shape = (len(range(*rows.indices(whole.shape[1]))), whole.shape[2])

    def raw(self) -> Bytes:
        return self._whole.raw()[self._expert, self._rows]


def by_release_names(found: Mapping[str, TensorSource], config: DeepseekV4Config) -> dict[str, TensorSource]:
    """Every tensor but those of draft blocks: renamed, split by expert, and joined with its scales."""
    renamed = {from_transformers(name): tensor for name, tensor in found.items()}
    kept = {name: tensor for name, tensor in renamed.items() if not name.startswith(DRAFT)}
    tensors: dict[str, TensorSource] = {}
    for name, tensor in kept.items():
        if (weight := _scaled_by(name)) is not None:
            if weight not in kept:
                # Nobody reads it: the check of all tensors names what is not known.
                tensors[name] = tensor
            continue
        if name.endswith(("ffn.experts.gate_up_proj", "ffn.experts.down_proj")):
            tensors.update(_split_experts(name, tensor, config))
        else:
            tensors[name] = _with_scales(name, tensor, kept)
    return tensors


def _scaled_by(name: str) -> str | None:
    """The weight that a tensor of scales belongs to; None for any other tensor."""
    suffix = next((suffix for suffix in (*NVFP4_SCALES, ".scale") if name.endswith(suffix)), None)
    return None if suffix is None else name.removesuffix(suffix) + ".weight"


def draft_tensors(found: Mapping[str, TensorSource]) -> int:
    """How many tensors belong to draft blocks, which are not run."""
    return sum(name.startswith(DRAFT) for name in found)


def _split_experts(name: str, tensor: TensorSource, config: DeepseekV4Config) -> dict[str, TensorSource]:
    if tensor.kind in PLAIN:
        raise SetupError(f"{name} is stored as {tensor.kind}, expected numbers: fused experts have no scales here.")
    prefix, _, which = name.rpartition(".")
    inner = config.experts.inner
    parts = {"w1": slice(0, inner), "w3": slice(inner, 2 * inner)} if which == "gate_up_proj" else {"w2": slice(None)}
    return {
        f"{prefix}.{expert}.{part}.weight": Slice(tensor, expert, rows)
        for expert in range(tensor.shape[0])
        for part, rows in parts.items()
    }


def _with_scales(name: str, tensor: TensorSource, all_: Mapping[str, TensorSource]) -> TensorSource:
    """The tensor itself, or joined with the scales that lie beside it."""
    stem = name.removesuffix(".weight")
    scale = all_.get(stem + ".scale")
    if scale is not None:
        if tensor.kind == "I8":
            _check(scale, stem + ".scale", (tensor.shape[0], 2 * tensor.shape[1] // FP4_GROUP), *SCALE_KINDS)
            shape = (tensor.shape[0], 2 * tensor.shape[1])
            return ScaledTensor("FP4", shape, [tensor, scale], lambda: fp4_weight(tensor.raw(), _scales(scale)))
        if tensor.kind != "F8_E4M3":
            raise SetupError(
                f"{name} is stored as {tensor.kind} but has scales; only F8_E4M3 and I8 weights have some."
            )
        _check(scale, stem + ".scale", tuple(-(-size // FP8_BLOCK) for size in tensor.shape), *SCALE_KINDS)
        return ScaledTensor("FP8", tensor.shape, [tensor, scale], lambda: fp8_weight(tensor.raw(), _scales(scale)))
    if all_.get(stem + ".weight_scale") is not None:
        return _nvfp4(stem, tensor, all_)
    if tensor.kind in CODES:
        raise SetupError(f"{name} is stored as {tensor.kind}, but {stem}.scale is missing. Download it again.")
    if name.endswith(ROUTES) != (tensor.kind == "I64") or tensor.kind == "F8_E8M0":
        wanted = "I64" if name.endswith(ROUTES) else "numbers"
        raise SetupError(f"{name} is stored as {tensor.kind}, expected {wanted}. Download it again.")
    return tensor


def _check(scale: TensorSource, name: str, wanted: tuple[int, ...], *kinds: str) -> None:
    if scale.shape != wanted:
        raise SetupError(f"{name} has shape {list(scale.shape)}, expected {list(wanted)}. Download it again.")
    if scale.kind not in kinds:
        raise SetupError(f"{name} is stored as {scale.kind}, expected {' or '.join(kinds)}. Download it again.")


def _nvfp4(stem: str, tensor: TensorSource, all_: Mapping[str, TensorSource]) -> TensorSource:
    fine, coarse = all_[stem + ".weight_scale"], all_.get(stem + ".weight_scale_2")
    if coarse is None:
        raise SetupError(f"{stem}.weight_scale_2 is missing. Download it again.")
    _check(fine, stem + ".weight_scale", (tensor.shape[0], 2 * tensor.shape[1] // NVFP4_GROUP), "F8_E4M3")
    _check(coarse, stem + ".weight_scale_2", coarse.shape, "F32")
    shape = (tensor.shape[0], 2 * tensor.shape[1])

    def decode() -> Floats:
        scales = E4M3[fine.raw()] * coarse.dequantize().reshape(-1)[0]
        return fp4_weight(tensor.raw(), scales, NVFP4_GROUP)

    return ScaledTensor("NVFP4", shape, [tensor, fine, coarse], decode)


def _scales(tensor: TensorSource) -> Floats:
    """Scales as numbers: powers of two in the release, float32 in the Base variant."""
    return from_e8m0(tensor.raw()) if tensor.kind == "F8_E8M0" else tensor.dequantize()
