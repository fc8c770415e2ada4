"""The tokenizer of a Hugging Face folder: tokenizer.json, and what the files around it say about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from isotherm.base.errors import SetupError
from isotherm.base.tokenizer import TokenizerSpec
from isotherm.model.huggingface import read_json, read_optional_json


def tokenizer_from_folder(folder: Path, model_config: Mapping[str, Any]) -> TokenizerSpec:
    """Read tokenizer.json, tokenizer_config.json, generation_config.json and a separate chat template.

    What ends an answer is named by the generation config, else by config.json, else by the tokenizer.
    """
    path = folder / "tokenizer.json"
    if not path.exists():
        raise SetupError(
            f"{folder} has no tokenizer.json. Other tokenizer files are not read: save the tokenizer once with "
            "`transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)`."
        )
    description = read_json(path)
    settings = read_optional_json(folder / "tokenizer_config.json")
    try:
        return _read(folder, description, settings, model_config)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise SetupError(
            f"{path} or the files beside it are not as they should be ({error!r}). Save it again."
        ) from error


def _read(
    folder: Path, description: Mapping[str, Any], settings: Mapping[str, Any], model_config: Mapping[str, Any]
) -> TokenizerSpec:
    added = description.get("added_tokens") or []
    ids = _ids_by_text(description)
    bos, eos = _token_text(settings.get("bos_token")), _token_text(settings.get("eos_token"))
    generation = read_optional_json(folder / "generation_config.json")
    named = generation.get("eos_token_id", model_config.get("eos_token_id", ids.get(eos or "")))
    bos_id = ids.get(bos or "", model_config.get("bos_token_id"))
    return TokenizerSpec(
        tokenizer_json=(folder / "tokenizer.json").read_bytes(),
        chat_template=_chat_template(folder, settings),
        bos_token=bos,
        bos_id=bos_id if isinstance(bos_id, int) else None,
        eos_token=eos,
        eos_ids=_eos_ids(named, folder),
        special_ids=tuple(sorted(token["id"] for token in added if token["special"])),
        add_bos=_adds_bos(description, bos),
    )


def _ids_by_text(description: Mapping[str, Any]) -> dict[str, int]:
    vocabulary = description["model"]["vocab"]
    known = dict(vocabulary) if isinstance(vocabulary, Mapping) else {}
    return known | {token["content"]: token["id"] for token in description.get("added_tokens") or []}


def _token_text(value: Any) -> str | None:
    """A special token is named by its text, or by an object that has it as ``content``."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _eos_ids(named: Any, folder: Path) -> tuple[int, ...]:
    ids = named if isinstance(named, list) else [named] if named is not None else []
    if not all(isinstance(token_id, int) and token_id >= 0 for token_id in ids):
        raise SetupError(f"{folder}: eos_token_id must be token ids, not {named!r}.")
    return tuple(sorted(set(ids)))


def _chat_template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """A file of its own wins; of several named templates the one called ``default``."""
    path = folder / "chat_template.jinja"
    if path.exists():
        return path.read_text(encoding="utf-8")
    separate = read_optional_json(folder / "chat_template.json").get("chat_template")
    template = separate or settings.get("chat_template")
    if isinstance(template, list):
        by_name = {entry["name"]: entry["template"] for entry in template}
        template = by_name.get("default")
    return template if isinstance(template, str) else None


def _adds_bos(description: Mapping[str, Any], bos: str | None) -> bool:
    """Whether the tokenizer itself puts BOS before a text: its post-processor is a template that starts with it."""
    for processor in _flat(description.get("post_processor")):
        if processor.get("type") == "TemplateProcessing" and bos is not None:
            first = (processor.get("single") or [{}])[0]
            if first.get("SpecialToken", {}).get("id") == bos:
                return True
    return False


def _flat(processor: Mapping[str, Any] | None) -> Iterable[Mapping[str, Any]]:
    if processor is None:
        return []
    return processor["processors"] if processor.get("type") == "Sequence" else [processor]


def generation_config(folder: Path) -> dict[str, Any]:
    """What the publisher recommends, only what is said: keys with a value other than null."""
    raw = read_optional_json(folder / "generation_config.json")
    return {name: value for name, value in raw.items() if value is not None}
