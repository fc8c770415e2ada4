"""The command line of the kernels' benchmark: a real run, its output, its exit codes."""

import json
from dataclasses import replace

import pytest

from isotherm.cli.main import main
from isotherm.kernels.measuring import measure

QUICK = ["bench", "kernels", "--quick", "--threads", "1", "--ops"]


def test_json_is_one_object_and_talk_is_on_stderr(capsys):
    assert main([*QUICK, "turn,write_rows", "--json"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert [each["op"] for each in document["measurements"]] == ["write_rows", "turn"]
    assert document["clean"] is True
    for each in document["measurements"]:
        assert each["right"] is True
        assert each["predicted"] > 0
        assert each["fast"]["median"] >= each["fast"]["fastest"] > 0
        assert each["stock"] is None
    assert document["roof"]["bandwidth"] > 1e8
    assert "turn, 2 x 64 x 512" in err


def test_a_table_for_people(capsys):
    assert main([*QUICK, "turn"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "GB/s from memory" in lines[0]
    assert lines[-1].startswith("turn ")
    assert lines[-1].endswith("2 x 64 x 512, normalised")


def test_a_wrong_result_is_a_finding(capsys, monkeypatch):
    def spoilt(*args, **options):
        report = true(*args, **options)
        report.measurements[0] = replace(report.measurements[0], error=1.0)
        return report

    true = measure.measure
    monkeypatch.setattr(measure, "measure", spoilt)
    assert main([*QUICK, "turn"]) == 1
    assert "WRONG: more than 1.0e-05" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [["--ops", "turns"], ["--threads", "0"], ["--threads", "many"]])
def test_what_makes_no_sense_gives_two(capsys, flags):
    assert main(["bench", "kernels", *flags]) == 2
    assert capsys.readouterr().err.startswith("isotherm: ")
