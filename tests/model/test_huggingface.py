"""Hugging Face folders: whole, sharded, damaged, incomplete; hub ids through the library's own cache."""

import json
import shutil
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load

from isotherm.base.errors import SetupError
from isotherm.base.request import TextPrompt
from isotherm.chat.encode import Encoder
from isotherm.model.checkpoint import open_checkpoint
from isotherm.model.safetensors_file import read_safetensors
from support.checkpoints import TINY, config_json, random_weights, tokenizer_json, write_folder, write_json

WEIGHTS = random_weights()


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_a_folder_is_read(tmp_path, shards, kind):
    checkpoint = open_checkpoint(str(write_folder(tmp_path / "tiny", WEIGHTS, kind=kind, shards=shards)))
    assert (checkpoint.name, checkpoint.format) == ("tiny", "safetensors")
    assert checkpoint.config == TINY
    assert checkpoint.generation_config == {"temperature": 0.6, "eos_token_id": [259, 260]}
    for name, values in WEIGHTS.items():
        tensor = checkpoint.tensors[name]
        assert tensor.kind == kind
        assert np.abs(tensor.dequantize() - values).max() <= {"F32": 0, "F16": 1e-3, "BF16": 4e-3}[kind]


def test_files_read_like_the_library_reads_them(tmp_path):
    path = write_folder(tmp_path, WEIGHTS) / "model.safetensors"
    theirs, ours = load(path.read_bytes()), read_safetensors(path)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert np.array_equal(tensor.dequantize(), theirs[name])


def test_the_tokenizer_facts_are_read(tmp_path):
    spec = open_checkpoint(str(write_folder(tmp_path, WEIGHTS))).tokenizer
    assert (spec.bos_token, spec.bos_id, spec.eos_token) == ("<|start|>", 258, "<|end|>")
    assert spec.eos_ids == (259, 260)
    assert spec.special_ids == (258, 259, 260)
    assert not spec.add_bos


def test_without_a_generation_config_the_model_says_what_ends_an_answer(tmp_path):
    folder = write_folder(tmp_path, WEIGHTS)
    (folder / "generation_config.json").unlink()
    checkpoint = open_checkpoint(str(folder))
    assert checkpoint.tokenizer.eos_ids == (259,)
    assert checkpoint.generation_config == {}


def test_a_tokenizer_that_adds_bos_is_recognised(tmp_path):
    folder = write_folder(tmp_path, WEIGHTS)
    bos = {"id": "<|start|>", "ids": [258], "tokens": ["<|start|>"]}
    single = [{"SpecialToken": {"id": "<|start|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    template = {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": {"<|start|>": bos}}
    write_json(folder / "tokenizer.json", {**tokenizer_json(), "post_processor": template})
    spec = open_checkpoint(str(folder)).tokenizer
    assert spec.add_bos
    assert Encoder(spec).encode(TextPrompt("he")).ids == [258, 256]


@pytest.mark.parametrize("where", ["jinja", "json", "named"])
def test_a_chat_template_is_found_wherever_it_is(tmp_path, where):
    folder = write_folder(tmp_path, WEIGHTS)
    settings_path = folder / "tokenizer_config.json"
    written = json.loads(settings_path.read_text())
    if where == "jinja":
        (folder / "chat_template.jinja").write_text("mine")
    elif where == "json":
        write_json(folder / "chat_template.json", {"chat_template": "mine"})
    else:
        named = [{"name": "tool_use", "template": "other"}, {"name": "default", "template": "mine"}]
        write_json(settings_path, {**written, "chat_template": named})
    assert open_checkpoint(str(folder)).tokenizer.chat_template == "mine"


def test_a_tied_head_that_was_saved_again_is_no_error(tmp_path):
    config = config_json(replace(TINY, tie_word_embeddings=True))
    assert "lm_head.weight" not in open_checkpoint(str(write_folder(tmp_path, WEIGHTS, config))).tensors


def test_old_rotary_buffers_are_no_error(tmp_path):
    weights = {**WEIGHTS, "model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(8, np.float32)}
    assert len(open_checkpoint(str(write_folder(tmp_path, weights))).tensors) == len(WEIGHTS)


def test_all_wrong_tensors_are_reported_at_once(tmp_path):
    weights = {name: values for name, values in WEIGHTS.items() if name != "model.norm.weight"}
    weights["lm_head.weight"] = np.zeros((3, 64), np.float32)
    weights["model.extra.weight"] = np.zeros(3, np.float32)
    with pytest.raises(SetupError) as refusal:
        open_checkpoint(str(write_folder(tmp_path, weights)))
    for part in (
        "model.norm.weight is missing",
        "model.extra.weight is not known",
        "shape [3, 64], expected [261, 64]",
    ):
        assert part in str(refusal.value)


@pytest.mark.parametrize(
    ("absent", "complaint"),
    [
        ("config.json", "has no config.json"),
        ("tokenizer.json", "has no tokenizer.json"),
        ("model.safetensors", "neither model.safetensors nor"),
    ],
)
def test_an_absent_file_is_named(tmp_path, absent, complaint):
    folder = write_folder(tmp_path, WEIGHTS)
    (folder / absent).unlink()
    with pytest.raises(SetupError, match=complaint):
        open_checkpoint(str(folder))


def test_an_absent_shard_is_named(tmp_path):
    folder = write_folder(tmp_path, WEIGHTS, shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(SetupError, match=r"lacks model-00002-of-00003\.safetensors"):
        open_checkpoint(str(folder))


def test_an_index_cannot_point_out_of_the_folder(tmp_path):
    folder = write_folder(tmp_path / "inner", WEIGHTS, shards=2)
    outside = tmp_path / "outside.safetensors"
    shutil.copy(folder / "model-00001-of-00002.safetensors", outside)
    write_json(folder / "model.safetensors.index.json", {"weight_map": {"a": "../outside.safetensors"}})
    with pytest.raises(SetupError, match="lacks"):
        open_checkpoint(str(folder))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"\xff\xfe", b'{"model": 3, "added_tokens": [4]}', b"[" * 99999]
)
def test_nonsense_in_a_json_file_is_a_setup_error(tmp_path, name, content):
    folder = write_folder(tmp_path, WEIGHTS)
    (folder / name).write_bytes(content)
    harmless = name in ("tokenizer_config.json", "generation_config.json") and content.startswith(b'{"model"')
    if harmless:
        assert open_checkpoint(str(folder)).tokenizer.eos_ids
    else:
        with pytest.raises(SetupError):
            open_checkpoint(str(folder))


def test_a_safetensors_file_cut_anywhere_is_refused(tmp_path):
    path = write_folder(tmp_path, WEIGHTS) / "model.safetensors"
    content = path.read_bytes()
    for cut in (*range(0, 4000, 53), len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(SetupError, match="Download it again"):
            read_safetensors(path)
    path.write_bytes(content + b"x")
    with pytest.raises(SetupError, match="bytes where its header describes"):
        read_safetensors(path)


@settings(max_examples=100)
@given(st.data())
def test_damage_in_a_safetensors_header_never_gives_another_error(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damage")
    path = write_folder(folder, {"a": np.ones((2, 3), np.float32), "b": np.ones(4, np.float32)}) / "model.safetensors"
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 41))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        tensors = read_safetensors(path)
    except SetupError:
        return
    assert all(tensor.raw().nbytes == tensor.nbytes for tensor in tensors.values())


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"dtype": "U16", "shape": [4], "data_offsets": [0, 8]}, "stored as U16"),
        ({"dtype": "F32", "shape": [4], "data_offsets": [0, 4]}, "does not fit"),
        ({"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}, "impossible"),
        ({"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}, "gap"),
        ({"dtype": "F32"}, "not described"),
    ],
)
def test_an_impossible_safetensors_entry_is_named(tmp_path, entry, complaint):
    header = json.dumps({"a": entry}).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(SetupError, match=complaint):
        read_safetensors(path)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A cache of ``huggingface_hub`` that holds one model, as its own download leaves it."""
    revision = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--someone--tiny"
    write_folder(repository / "snapshots" / revision, WEIGHTS)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(revision)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))


def test_a_hub_id_is_opened_from_the_cache(hub):
    checkpoint = open_checkpoint("someone/tiny", offline=True)
    assert checkpoint.name == "someone/tiny"
    assert checkpoint.tensors.keys() == WEIGHTS.keys()


def test_a_hub_id_that_is_not_here_says_so(hub):
    with pytest.raises(SetupError, match=r"someone/other is not in the Hugging Face cache and --offline"):
        open_checkpoint("someone/other", offline=True)


def test_a_hub_that_cannot_be_reached_says_so(hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(SetupError, match="someone/other"):
        open_checkpoint("someone/other")


def test_codes_without_their_meaning_are_refused(tmp_path):
    """A Llama-type folder whose weights are 8-bit codes is not served as numbers."""
    from model.test_llama_families import save

    save("grouped", tmp_path)
    path = tmp_path / "model.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    entry = header["model.layers.0.self_attn.q_proj.weight"]
    entry["dtype"], entry["shape"] = "U8", [entry["shape"][0], 4 * entry["shape"][1]]
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
    with pytest.raises(SetupError, match=r"q_proj\.weight is stored as U8"):
        open_checkpoint(str(tmp_path))
