"""``isotherm models``: which models have a name, bring one here, look into one before loading it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from isotherm.base.errors import SetupError
from isotherm.cli.flags import add_flags, settings_of
from isotherm.cli.transfer import transfer
from isotherm.model.catalog import CATALOG, SHIPPED, CatalogEntry
from isotherm.settings.kinds import Size


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb's parser."""
    parser = subparsers.add_parser("models", description="List, fetch and inspect models.", allow_abbrev=False)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="models that have a name, and whether they are here")
    fetching = actions.add_parser("fetch", help="download a model into the cache and check it")
    fetching.add_argument("model", help="name of a model, or a hub id owner/name")
    making = actions.add_parser("make-tiny", help="write a small random DeepSeek-V4 checkpoint, to try a deployment")
    making.add_argument("path", type=Path, help="folder to write, new or empty")
    making.add_argument("--seed", type=int, default=0, help="other weights for another number [0]")
    making.add_argument("--config", type=Path, metavar="FILE", help="JSON file with entries of config.json to change")
    making.add_argument(
        "--release", action="store_true", help="FP8 weights and FP4 experts as in the release; else bfloat16"
    )
    looking = actions.add_parser("inspect", help="parameters, bytes, memory per token; nothing is loaded")
    looking.add_argument("model", help="name, .gguf file, Hugging Face folder or hub id")
    looking.add_argument("--memory", metavar="SIZE", help="say how many tokens fit into this much, for example 2G")
    for action in (listing, fetching, looking, making):
        action.add_argument("--json", action="store_true", help="print JSON")
    for action in (fetching, looking):
        add_flags(action, "models")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do one action; data on stdout, progress on stderr."""
    actions: dict[str, Callable[[argparse.Namespace], None]] = {
        "list": _list,
        "fetch": _fetch,
        "inspect": _inspect,
        "make-tiny": _make_tiny,
    }
    args.offline = settings_of("models", args)["offline"]
    actions[args.action](args)
    return 0


def _list(args: argparse.Namespace) -> None:
    from isotherm.model.fetch import cached_path  # noqa: PLC0415  (each action imports what it needs)

    found = {entry: cached_path(entry) for entry in CATALOG.values()}
    if args.json:
        rows = [{**asdict(entry), "path": path and str(path)} for entry, path in found.items()]
        rows += [{**asdict(entry), "path": str(entry.path), "size": entry.size} for entry in SHIPPED.values()]
        print(json.dumps(rows, indent=2))
        return
    width = max(map(len, [*CATALOG, *SHIPPED]))
    for shipped in SHIPPED.values():
        print(f"{shipped.name:<{width}}  {_megabytes(shipped.size):>9}  {'here':<8}  {shipped.summary}")
    for entry, path in found.items():
        print(
            f"{entry.name:<{width}}  {_megabytes(entry.size):>9}  {'here' if path else 'not here':<8}  {entry.summary}"
        )


def _fetch(args: argparse.Namespace) -> None:
    path = _fetched(CATALOG.get(args.model), args)
    print(json.dumps({"name": args.model, "path": path}) if args.json else path)


def _fetched(entry: CatalogEntry | None, args: argparse.Namespace) -> str:
    from isotherm.model.checkpoint import open_checkpoint  # noqa: PLC0415
    from isotherm.model.fetch import fetch  # noqa: PLC0415

    with transfer() as report:
        if entry is None:
            # Opened too: a model that cannot be used is no success.
            return str(open_checkpoint(args.model, offline=args.offline, progress=report).path)
        return str(fetch(entry, offline=args.offline, progress=report))


def _make_tiny(args: argparse.Namespace) -> None:
    from isotherm.model.deepseek_v4.tiny import write_tiny  # noqa: PLC0415

    folder: Path = args.path
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SetupError(f"{folder} is not an empty folder. Name a new one.")
    try:
        write_tiny(folder, args.seed, _changes(args.config), release=args.release)
    except (OSError, ValueError) as error:
        raise SetupError(f"Cannot write {folder}: {error}.") from error
    print(json.dumps({"path": str(folder.resolve())}) if args.json else folder)


def _changes(path: Path | None) -> dict[str, Any]:
    """What the file of ``--config`` says."""
    if path is None:
        return {}
    try:
        changes = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SetupError(f"Cannot read --config {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise SetupError(f"--config {path} is no JSON: {error}.") from error
    if not isinstance(changes, dict):
        raise SetupError(f"--config {path} must hold a JSON object of entries of config.json, not {changes!r:.60}.")
    return changes


def _inspect(args: argparse.Namespace) -> None:
    from isotherm.model.checkpoint import open_checkpoint  # noqa: PLC0415
    from isotherm.model.inspect import inspect_checkpoint  # noqa: PLC0415

    memory = _memory(args.memory)
    with transfer() as report:
        checkpoint = open_checkpoint(args.model, offline=args.offline, progress=report)
    facts = asdict(inspect_checkpoint(checkpoint, memory))
    if args.json:
        print(json.dumps(facts, indent=2))
        return
    for name, text in _lines(facts):
        print(f"{name:<18} {text}")


def _memory(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        size = Size().parse(text)
    except ValueError as error:
        raise SetupError(f"--memory {error}") from error
    assert isinstance(size, int)
    return size


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    config, tokenizer = facts["config"], facts["tokenizer"]
    lines = [
        ("model", facts["name"]),
        ("file", f"{facts['path']} ({facts['format']})"),
        ("architecture", config["architecture"]),
        ("parameters", f"{facts['parameters']:,}"),
        ("weights", _megabytes(facts["weight_bytes"])),
    ]
    lines += [
        (f"  {share['kind']}", f"{_megabytes(share['bytes'])} in {share['tensors']} tensors, {share['parameters']:,}")
        for share in facts["storage"]
    ]
    lines += (
        _deepseek_v4_lines(config)
        if "hyper" in config
        else [
            ("layers", f"{config['num_layers']} of width {config['hidden_size']}, MLP {config['intermediate_size']}"),
            (
                "heads",
                f"{config['num_heads']} for queries, {config['num_kv_heads']} for keys, {config['head_dim']} wide",
            ),
            ("rotary positions", f"base {config['rope_theta']:g}, {_rope(config['rope_scaling'])}"),
        ]
    )
    lines.append(("context", f"{facts['context']:,} tokens"))
    for dtype, size in facts["kv_bytes_per_token"].items():
        fixed = facts["sequence_bytes"].get(dtype)
        beside = "" if fixed is None else f", and {_megabytes(fixed)} a running sequence"
        lines.append((f"KV in {dtype}", f"{size:,.10g} bytes a token{beside}"))
    if facts["tokens_that_fit"] is not None:
        fits = ", ".join(f"{count:,} in {dtype}" for dtype, count in facts["tokens_that_fit"].items())
        lines.append((f"fit in {_megabytes(facts['memory_bytes'])}", f"{fits} (weights as stored, and KV)"))
    chat = "with chat template" if tokenizer["chat_template"] else "without chat template"
    if tokenizer["chat_encoding"]:
        chat = f"laid out as {tokenizer['chat_encoding']} does, without a template"
    lines += [
        ("vocabulary", f"{tokenizer['vocab_size']:,} tokens, {tokenizer['special_tokens']} of them special"),
        (
            "begins with",
            f"{tokenizer['bos']!r}, {'always' if tokenizer['adds_bos'] else 'only if a template writes it'}",
        ),
        ("ends with", f"{tokenizer['eos']!r}, ids {', '.join(map(str, tokenizer['eos_ids']))}"),
        ("chat", chat),
        *([("effort texts", tokenizer["effort_texts"])] if tokenizer["effort_texts"] else []),
        ("sampling", json.dumps(facts["generation_config"]) if facts["generation_config"] else "nothing recommended"),
    ]
    return lines


def _deepseek_v4_lines(config: dict[str, Any]) -> list[tuple[str, str]]:
    attention, experts = config["attention"], config["experts"]
    kinds = [0 if layer is None else layer["ratio"] for layer in config["layers"]]
    counts = ", ".join(f"{kinds.count(ratio)} by {ratio}" for ratio in sorted(set(kinds)) if ratio)
    return [
        ("layers", f"{len(kinds)} of width {config['hidden_size']} in {config['hyper']['streams']} streams"),
        ("compression", f"{counts or 'none'}; {kinds.count(0)} with the window alone ({attention['window']} tokens)"),
        ("heads", f"{attention['num_heads']} over one latent row of {attention['head_dim']}"),
        (
            "indexer",
            f"{attention['index_heads']} heads of {attention['index_dim']}, the best {attention['index_topk']}",
        ),
        ("experts", f"{experts['active']} of {experts['count']} and one shared, {experts['inner']} wide"),
    ]


def _rope(scaling: dict[str, Any] | None) -> str:
    return "not stretched" if scaling is None else f"stretched by {scaling['rope_type']}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
