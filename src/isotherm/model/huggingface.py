"""A model folder as Hugging Face lays it out: config.json, safetensors, tokenizer.json and what comes with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isotherm.base.errors import SetupError
from isotherm.model.safetensors_file import read_safetensors
from isotherm.model.tensors import TensorSource

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PATTERNS = ("*.json", "*.safetensors", "*.jinja", "encoding/*.py")
"""Files of a hub repository that are read; code too, but none is run."""
COMPUTED = ("rotary_emb.inv_freq", "masked_bias")
"""Ends of names of tensors that old files carry although they follow from the configuration."""


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. SetupError when the file is missing or something else."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SetupError(
            f"{path.parent} has no {path.name}, so it is no complete Hugging Face model folder."
        ) from error
    except OSError as error:
        raise SetupError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{path} is damaged: {error}. Download it again.") from error
    if not isinstance(value, dict):
        raise SetupError(f"{path} holds no JSON object. Download it again.")
    return value


def read_optional_json(path: Path) -> dict[str, Any]:
    """Like ``read_json``, empty when there is no such file."""
    return read_json(path) if path.exists() else {}


def read_weights(folder: Path) -> dict[str, TensorSource]:
    """All tensors of the folder, from one file or from the shards that its index names."""
    if (folder / INDEX).exists():
        tensors = _read_shards(folder, read_json(folder / INDEX))
    elif (folder / WEIGHTS).exists():
        tensors = read_safetensors(folder / WEIGHTS)
    else:
        hint = "; its PyTorch pickles are not read" if list(folder.glob("*.bin")) else ""
        raise SetupError(f"{folder} has neither {WEIGHTS} nor {INDEX}{hint}. Use a model with safetensors.")
    return {name: tensor for name, tensor in tensors.items() if not name.endswith(COMPUTED)}


def _read_shards(folder: Path, index: Mapping[str, Any]) -> dict[str, TensorSource]:
    places = index.get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(shard, str) for shard in places.values()):
        raise SetupError(f"{folder / INDEX} has no weight_map. Download it again.")
    shards = sorted(set(places.values()))
    absent = [shard for shard in shards if Path(shard).name != shard or not (folder / shard).is_file()]
    if absent:
        raise SetupError(f"{folder} lacks {', '.join(absent)}, which {INDEX} names. Download the rest.")
    tensors: dict[str, TensorSource] = {}
    for shard in shards:
        tensors.update(read_safetensors(folder / shard))
    return tensors


def download(repository: str, *, offline: bool) -> Path:
    """The folder of a hub repository, downloaded into (or found in) the cache of ``huggingface_hub``.

    Honours ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` as every program that uses the hub does.
    """
    from huggingface_hub import snapshot_download  # noqa: PLC0415  (only a hub id needs it)
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError  # noqa: PLC0415

    try:
        return Path(snapshot_download(repository, allow_patterns=list(PATTERNS), local_files_only=offline))
    except LocalEntryNotFoundError as error:
        reason = "--offline forbids downloading it" if offline else "the hub cannot be reached"
        raise SetupError(
            f"{repository} is not in the Hugging Face cache and {reason}. Download it once with a network."
        ) from error
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise SetupError(f"Cannot download {repository} from the Hugging Face hub: {error}") from error
