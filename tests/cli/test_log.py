"""Both forms of the log, and that one record is one line whatever it holds."""

import json
import logging

import pytest

from isotherm.cli.log import JsonFormatter, TextFormatter, configure


def record(message, **extra):
    return logging.makeLogRecord({"name": "isotherm.server", "levelname": "INFO", "msg": message, **extra})


def test_json_holds_the_extra_fields():
    line = JsonFormatter().format(record("done", request_id="req-1", seconds=0.5))
    entry = json.loads(line)
    assert entry["message"] == "done"
    assert entry["level"] == "info"
    assert entry["request_id"] == "req-1"
    assert entry["seconds"] == 0.5
    assert entry["time"].endswith("+00:00")


def test_text_holds_them_too():
    assert TextFormatter().format(record("done", request_id="req-1")).endswith("info: done request_id=req-1")


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_a_record_is_one_line_even_if_a_client_wrote_part_of_it(formatter):
    line = formatter.format(record("id\nforged line", request_id="a\nb\x1b[2J"))
    assert "\n" not in line
    assert "\x1b" not in line


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_an_exception_is_told(formatter):
    try:
        raise KeyError("lost")
    except KeyError as error:
        line = formatter.format(record("failed", exc_info=(type(error), error, error.__traceback__)))
    assert "KeyError: 'lost'" in line


@pytest.fixture
def _logging_restored():
    root, names = logging.getLogger(), ("isotherm", "uvicorn", "uvicorn.error")
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in names}
    yield
    root.handlers[:], root.level = handlers, level
    for name, old in levels.items():
        logging.getLogger(name).setLevel(old)


@pytest.mark.usefixtures("_logging_restored")
def test_the_level_is_ours_and_other_libraries_stay_quiet(capsys):
    configure("json", "info")
    logging.getLogger("isotherm.test").info("shown")
    logging.getLogger("isotherm.test").debug("hidden")
    logging.getLogger("somebody").info("hidden")
    logging.getLogger("uvicorn.error").info("hidden")
    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["message"] for line in lines] == ["shown"]
