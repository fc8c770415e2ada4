"""Opens a model by name, file, folder or hub id: what it is, its tokenizer, and its tensors on demand.

Nothing here needs torch: listing, inspecting and fetching work without an engine installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from isotherm.base.errors import SetupError
from isotherm.base.tokenizer import TokenizerSpec
from isotherm.model import huggingface
from isotherm.model.catalog import CATALOG, SHIPPED
from isotherm.model.config import LlamaConfig, tensor_shapes
from isotherm.model.deepseek_v4.config import DeepseekV4Config
from isotherm.model.deepseek_v4.effort import effort_texts
from isotherm.model.deepseek_v4.names import tensor_shapes as deepseek_v4_shapes
from isotherm.model.deepseek_v4.read_config import is_deepseek_v4, read_config
from isotherm.model.deepseek_v4.tensors import by_release_names, draft_tensors
from isotherm.model.fetch import fetch
from isotherm.model.gguf_config import config_from_gguf
from isotherm.model.gguf_file import read_gguf
from isotherm.model.gguf_tensors import GgufTensors
from isotherm.model.gguf_tokenizer import tokenizer_from_gguf
from isotherm.model.huggingface_config import config_from_huggingface
from isotherm.model.huggingface_tokenizer import generation_config, tokenizer_from_folder
from isotherm.model.kv_scales import without_kv_scales
from isotherm.model.progress import Progress, silent
from isotherm.model.tensors import PLAIN, TensorSource

Config = LlamaConfig | DeepseekV4Config

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)

MAX_PROBLEMS = 20
"""Wrong tensors that one message lists."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model that can be loaded. ``tensors`` is complete and of the right shapes, its data still on disk."""

    name: str
    path: Path
    format: str
    config: Config
    tokenizer: TokenizerSpec
    generation_config: Mapping[str, Any]
    tensors: Mapping[str, TensorSource]
    notices: tuple[str, ...] = ()
    """What people should know before it is served."""


def open_checkpoint(ref: str, *, offline: bool = False, progress: Progress | None = None) -> Checkpoint:
    """Open ``ref``: a catalogue name, a ``.gguf`` file, a Hugging Face folder or a hub id ``owner/name``.

    May download (not when ``offline``). Raises SetupError when there is no such model or it cannot be used.
    """
    if ref in SHIPPED:
        return _open_folder(SHIPPED[ref].path, ref)
    if ref in CATALOG:
        return _open_gguf(fetch(CATALOG[ref], offline=offline, progress=progress or silent), ref)
    path = Path(ref).expanduser()
    if path.is_dir():
        return _open_folder(path, path.resolve().name)
    if path.is_file():
        return _open_gguf(path, path.stem)
    if HUB_ID.fullmatch(ref) and not ref.endswith(".gguf"):
        return _open_folder(huggingface.download(ref, offline=offline), ref)
    raise _unknown(ref)


def _open_gguf(path: Path, name: str) -> Checkpoint:
    file = read_gguf(path)
    config = config_from_gguf(file)
    tensors = GgufTensors(file, config)
    check_tensors(tensors, lambda: tensor_shapes(config), config, path)
    return Checkpoint(name, path, "gguf", config, tokenizer_from_gguf(file), {}, tensors)


def _open_folder(folder: Path, name: str) -> Checkpoint:
    raw = huggingface.read_json(folder / "config.json")
    if is_deepseek_v4(raw):
        return _open_deepseek_v4(folder, name, raw)
    config = config_from_huggingface(raw, str(folder / "config.json"))
    tensors, notices = without_kv_scales(
        huggingface.read_weights(folder), "keys and values are kept in the dtype of the linear layers"
    )
    for tensor_name, tensor in tensors.items():
        if tensor.kind in PLAIN:
            raise SetupError(
                f"{folder}: {tensor_name} is stored as {tensor.kind}, which a {config.architecture} has not."
            )
    if config.tie_word_embeddings:
        # Some publishers save the tied head again.
        tensors.pop("lm_head.weight", None)
    check_tensors(tensors, lambda: tensor_shapes(config), config, folder)
    tokenizer = tokenizer_from_folder(folder, raw)
    return Checkpoint(name, folder, "safetensors", config, tokenizer, generation_config(folder), tensors, notices)


def _open_deepseek_v4(folder: Path, name: str, raw: Mapping[str, Any]) -> Checkpoint:
    config = read_config(raw, str(folder / "config.json"))
    found, notices = without_kv_scales(
        huggingface.read_weights(folder),
        "--kv-dtype fp8_e4m3 computes scales for every row, other precisions need none",
    )
    tensors = by_release_names(found, config)
    check_tensors(tensors, lambda: deepseek_v4_shapes(config), config, folder)
    if drafts := draft_tensors(found):
        notices += (f"{drafts} tensors of draft blocks (mtp.*) are left out: this is served without speculation",)
    tokenizer = replace(
        tokenizer_from_folder(folder, raw), chat_encoding="deepseek-v4", effort_texts=effort_texts(folder, name)
    )
    return Checkpoint(name, folder, "safetensors", config, tokenizer, generation_config(folder), tensors, notices)


def check_tensors(
    found: Mapping[str, TensorSource],
    expected: Callable[[], Mapping[str, tuple[int, ...]]],
    config: Config,
    path: Path,
) -> None:
    """Raise one SetupError that lists every missing, unexpected and mis-shaped tensor.

    ``expected`` is asked only once the sizes are not absurd: a damaged number may describe more tensors than memory
    holds.
    """
    if config.num_layers > len(found):
        raise SetupError(f"{path} describes {config.num_layers} layers but holds only {len(found)} tensors.")
    if isinstance(config, DeepseekV4Config) and config.experts.count > len(found):
        raise SetupError(f"{path} describes {config.experts.count} experts but holds only {len(found)} tensors.")
    wanted = expected()
    problems = [f"{name} is missing" for name in wanted if name not in found]
    problems += [f"{name} is not known in {config.architecture}" for name in found if name not in wanted]
    problems += [
        f"{name} has shape {list(found[name].shape)}, expected {list(shape)}"
        for name, shape in wanted.items()
        if name in found and found[name].shape != shape
    ]
    if problems:
        if len(problems) > MAX_PROBLEMS:
            problems[MAX_PROBLEMS:] = [f"and {len(problems) - MAX_PROBLEMS} more"]
        lines = "\n  ".join(problems)
        raise SetupError(f"{path} does not hold the tensors that its configuration describes:\n  {lines}")


def _unknown(ref: str) -> SetupError:
    close = get_close_matches(ref, [*SHIPPED, *CATALOG], n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    names = ", ".join(sorted([*SHIPPED, *CATALOG]))
    return SetupError(
        f"There is no model {ref!r}: neither a name ({names}), nor a file, nor a folder, "
        f"nor a hub id (owner/name).{hint} "
        "Run `isotherm models list`."
    )
