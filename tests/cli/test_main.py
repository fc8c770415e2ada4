"""The command itself: exit codes, hints for slips, and that help is quick and imports little."""

import subprocess
import sys
import time

import pytest

from isotherm import __version__
from isotherm.base.errors import SetupError
from isotherm.cli import main as command
from isotherm.cli.main import VERBS, main


def isotherm(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "isotherm", *words], capture_output=True, text=True, check=False, timeout=60, **options
    )


def test_help_lists_the_verbs_in_a_blink_without_the_heavy_imports():
    start = time.perf_counter()
    result = isotherm("--help")
    seconds = time.perf_counter() - start
    assert result.returncode == 0
    assert all(verb in result.stdout for verb in VERBS)
    script = (
        "import sys; from isotherm.cli.main import main\ntry: main(['--help'])\nfinally: print(sorted(sys.modules))"
    )
    modules = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False).stdout
    assert not any(f"'{name}'" in modules for name in ("torch", "fastapi", "httpx", "numpy", "rich", "yaml"))
    # Generous against a busy machine; the figure itself is in the docs.
    assert seconds < 3


def test_version():
    assert isotherm("--version").stdout == f"isotherm {__version__}\n"


def test_no_words_print_help(capsys):
    assert main([]) == 0
    assert "serve" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "phrases"),
    [
        (["sevre"], ["'sevre' is not a command", "Did you mean serve?"]),
        (
            ["chat", "--ulr", "x"],
            ["`isotherm chat` does not take '--ulr'", "Did you mean --url?", "isotherm chat --help"],
        ),
        (["serve", "--max-queues=5"], ["does not take '--max-queues=5'", "Did you mean --max-queue?"]),
        (["serve", "m", "another"], ["`isotherm serve` does not take 'another'"]),
        (
            ["bench", "serve", "--concurency", "1"],
            ["`isotherm bench serve` does not take", "Did you mean --concurrency?"],
        ),
        (["serve", "--port", "x"], ["--port needs a whole number"]),
    ],
)
def test_a_slip_is_named_with_the_nearest_right_word(capsys, words, phrases):
    assert main(words) == 2
    captured = capsys.readouterr()
    assert all(phrase in captured.err for phrase in phrases), captured.err
    assert captured.out == ""


def test_errors_on_purpose_exit_2_with_their_text(monkeypatch, capsys):
    monkeypatch.setattr(command, "_run", raising(SetupError("what, why, next step")))
    assert main(["serve"]) == 2
    assert capsys.readouterr().err == "isotherm: what, why, next step\n"


def test_a_defect_shows_its_traceback_and_is_no_finding(monkeypatch, capsys):
    monkeypatch.setattr(command, "_run", raising(KeyError("ours")))
    assert main(["models"]) == 2
    assert "KeyError: 'ours'" in capsys.readouterr().err


def test_without_the_engine_the_light_part_works_and_the_rest_says_what_to_install():
    script = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "numpy", "numba", "gguf", "safetensors", "huggingface_hub"}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
from isotherm.cli.main import main
sys.exit(main(sys.argv[1:]))
"""

    def light(*words):
        return subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)

    assert light("models", "list").returncode == 0
    assert light("serve", "--explain").returncode == 0
    assert "No server answers" in light("chat", "hi", "--url", "http://127.0.0.1:9").stderr
    for words in (["serve", "--port", "0"], ["models", "inspect", "smollm2-135m"]):
        result = light(*words)
        assert result.returncode == 2
        assert "pip install 'isotherm[engine]'" in result.stderr
        assert "Traceback" not in result.stderr


def test_ctrl_c_leaves_without_a_traceback(monkeypatch, capsys):
    monkeypatch.setattr(command, "_run", raising(KeyboardInterrupt()))
    assert main(["models"]) == 2
    assert capsys.readouterr().err == "isotherm: interrupted\n"


def test_a_reader_who_leaves_is_no_error():
    script = f"{sys.executable} -m isotherm serve --explain | head -c 1"
    result = subprocess.run(["bash", "-o", "pipefail", "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert result.stderr == ""


def raising(error):
    def run(words):
        raise error

    return run
