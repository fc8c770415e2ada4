"""The header reader: agrees with the gguf package, and survives every damaged file with a clear message."""

import struct
import tracemalloc

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotherm.base.errors import SetupError
from isotherm.model.checkpoint import open_checkpoint
from isotherm.model.gguf_file import read_gguf
from support.checkpoints import random_weights, write_gguf

HEAD = struct.Struct("<4sIQQ")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", random_weights())


def altered(tmp_path, original, position, data):
    content = bytearray(original.read_bytes())
    content[position : position + len(data)] = data
    path = tmp_path / "altered.gguf"
    path.write_bytes(content)
    return path


def assert_reads_like_the_package(path):
    ours, theirs = read_gguf(path), gguf.GGUFReader(path)
    fields = {key: field.contents() for key, field in theirs.fields.items() if not key.startswith("GGUF.")}
    assert ours.metadata.keys() == fields.keys()
    for key, value in fields.items():
        mine = ours.metadata[key]
        assert (mine.tolist() if isinstance(mine, np.ndarray) else mine) == value, key
    assert ours.tensors.keys() == {tensor.name for tensor in theirs.tensors}
    for tensor in theirs.tensors:
        entry = ours.tensors[tensor.name]
        assert entry.shape == tuple(int(size) for size in tensor.shape)[::-1]
        assert entry.kind == tensor.tensor_type.name
        assert (entry.start, entry.nbytes) == (tensor.data_offset, tensor.n_bytes)
        assert np.array_equal(
            ours.bytes_of(entry).reshape(-1), np.ascontiguousarray(tensor.data).view(np.uint8).ravel()
        )


def test_a_small_file_reads_like_the_package_reads_it(tiny):
    assert_reads_like_the_package(tiny)


@pytest.mark.model
def test_smollm2_reads_like_the_package_reads_it(smollm2):
    assert_reads_like_the_package(open_checkpoint(smollm2).path)


def test_every_type_of_value(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "types.gguf", "llama")
    for kind in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"):
        getattr(writer, f"add_{kind}")(kind, 7)
    writer.add_float32("float32", 0.5)
    writer.add_float64("float64", 0.1)
    writer.add_bool("bool", True)
    writer.add_string("string", "žluť")
    writer.add_array("words", ["a", "", "ü"])
    writer.add_array("floats", [0.5, 1.5])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert_reads_like_the_package(tmp_path / "types.gguf")


def test_a_file_cut_anywhere_is_refused(tiny, tmp_path):
    content = tiny.read_bytes()
    header_end = min(entry.start for entry in read_gguf(tiny).tensors.values())
    cuts = {*range(0, header_end, 61), *range(header_end, len(content), 20_011), 1, 23, len(content) - 1}
    path = tmp_path / "cut.gguf"
    for cut in cuts:
        path.write_bytes(content[:cut])
        with pytest.raises(SetupError, match=r"Download|truncated"):
            read_gguf(path)


@settings(max_examples=150)
@given(st.data())
def test_damage_in_the_header_never_gives_another_error(tiny, tmp_path_factory, data):
    """Some damage cannot be seen (a digit in a number, a letter of a token); the rest must be a SetupError."""
    content = bytearray(tiny.read_bytes())
    header_end = min(entry.start for entry in read_gguf(tiny).tensors.values())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, header_end - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damage") / "damaged.gguf"
    path.write_bytes(content)
    try:
        checkpoint = open_checkpoint(str(path))
    except SetupError:
        pass
    else:
        assert all(tensor.raw().nbytes == tensor.nbytes for tensor in checkpoint.tensors.values())


def first_string_array(content):
    """Where the length of the token list stands."""
    key = b"tokenizer.ggml.tokens"
    return content.index(key) + len(key) + 8


@pytest.mark.parametrize("count", [2**31, 2**40, 2**63, 2**64 - 1])
def test_absurd_counts_are_refused_without_memory_for_them(tiny, tmp_path, count):
    content = tiny.read_bytes()
    number = struct.pack("<Q", count)
    types = content.index(b"tokenizer.ggml.token_type") + len(b"tokenizer.ggml.token_type") + 8
    for position in (8, 16, 24, first_string_array(content), types):
        path = altered(tmp_path, tiny, position, number)
        tracemalloc.start()
        with pytest.raises(SetupError):
            read_gguf(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1_000_000


def test_an_absurd_number_of_layers_is_refused_without_memory_for_them(tmp_path):
    path = write_gguf(tmp_path / "deep.gguf", random_weights(), metadata={"llama.expert_count": 0})
    key = b"llama.block_count"
    content = path.read_bytes()
    deep = altered(tmp_path, path, content.index(key) + len(key) + 4, struct.pack("<I", 2**32 - 1))
    tracemalloc.start()
    with pytest.raises(SetupError, match="4294967295 layers"):
        open_checkpoint(str(deep))
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("head", "complaint"),
    [
        ((b"GGML", 3, 0, 0), "starts with b'GGML'"),
        ((b"GGUF", 1, 0, 0), "version 1"),
        ((b"GGUF", 0x03000000, 0, 0), "big-endian"),
        ((b"GGUF", 3, 2, 0), "more than fit"),
    ],
)
def test_what_is_wrong_at_the_start_is_named(tmp_path, head, complaint):
    path = tmp_path / "head.gguf"
    path.write_bytes(HEAD.pack(*head))
    with pytest.raises(SetupError, match=complaint):
        read_gguf(path)


def tensor_record(name, shape, ggml_id, offset):
    text = name.encode()
    sizes = struct.pack(f"<{len(shape)}Q", *shape)
    return (
        struct.pack("<Q", len(text))
        + text
        + struct.pack("<I", len(shape))
        + sizes
        + struct.pack("<IQ", ggml_id, offset)
    )


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        ([("a", (4,), 0, 1)], "not a multiple of 32"),
        ([("a", (4,), 0, 2**40)], "truncated"),
        ([("a", (2**63, 2**63), 0, 0)], "truncated"),
        ([("a", (0,), 0, 0)], "impossible"),
        ([("a", (33,), 2, 0)], "impossible for Q4_0"),
        ([("a", (1, 1, 1, 1, 1), 0, 0)], "5 dimensions"),
        ([("a", (4,), 99, 0)], "ggml type 99"),
        ([("a", (4,), 0, 0), ("a", (4,), 0, 0)], "occurs twice"),
    ],
)
def test_an_impossible_tensor_is_named(tmp_path, records, complaint):
    path = tmp_path / "tensor.gguf"
    body = b"".join(tensor_record(*record) for record in records)
    path.write_bytes(HEAD.pack(b"GGUF", 3, len(records), 0) + body + bytes(256))
    with pytest.raises(SetupError, match=complaint):
        read_gguf(path)


def test_missing_and_empty_files_are_named(tmp_path):
    with pytest.raises(SetupError, match="No such file"):
        read_gguf(tmp_path / "nothing.gguf")
    (tmp_path / "empty.gguf").touch()
    with pytest.raises(SetupError, match="is empty"):
        read_gguf(tmp_path / "empty.gguf")
