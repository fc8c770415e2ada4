"""The README's table of results."""

import json

import pytest

import table

MACHINE = {
    "date": "2026-01-02T03:04:05+00:00",
    "command": "python benchmarks/peers.py",
    "commit": "abc123",
    "cpu": "A Processor",
    "cpus": 2,
    "cpu_flags": ["avx2"],
    "memory_gb": 23.9,
    "versions": {"torch": "2.13.0", "fastapi": "1"},
}


def row(what, order, **rest):
    blank = {"sides": [], "at_least": None, "at_most": None, "met": None, "unit": "s"}
    values = rest.get("values", [1.0])
    spread = {"median": values[len(values) // 2], "low": min(values), "high": max(values)}
    return {"what": what, "order": order, "values": values, **blank, **spread, **rest}


def side(engine, *values, setting=""):
    return {"engine": engine, "values": list(values), "unit": "tokens/s", "setting": setting, "command": "x"}


def document(*rows, **machine):
    return {"machine": {**MACHINE, **machine}, "rows": list(rows)}


def lines_of(text):
    return [line for line in text.splitlines() if line.startswith("|")][2:]


def test_rows_of_all_files_stand_in_their_own_order():
    text = table.table([document(row("last", 9)), document(row("first", 1), row("middle", 5))])
    assert [line.split(" | ")[0] for line in lines_of(text)] == ["| first", "| middle", "| last"]


def test_a_ratio_shows_both_sides_their_settings_and_whether_the_bar_is_met():
    sides = [side("Isotherm", 120.0, 100.0, 110.0, setting="2 threads, spinning off"), side("peer", 30.0, 31.0, 29.0)]
    compared = row("decode", 1, values=[3.6, 3.7, 3.8], unit="x", sides=sides, at_least=3.5, met=True)
    (line,) = lines_of(table.table([document(compared)]))
    assert "110 tokens/s (Isotherm; 2 threads, spinning off)" in line
    assert "30 tokens/s (peer)" in line
    assert "3.70x [3.60, 3.80], n=3 | ≥ 3.50x | met |" in line.replace(" x |", "x |")


def test_a_missed_bar_is_not_hidden():
    (line,) = lines_of(table.table([document(row("start", 1, values=[7.25], at_most=6.0, met=False))]))
    assert "| 7.25 s | ≤ 6 s | **missed** |" in line


def test_a_row_without_a_bar_has_empty_cells():
    (line,) = lines_of(table.table([document(row("remark", 1, values=[0.0], unit="%"))]))
    assert line.endswith("| 0 % |  |  |")


def test_the_machine_and_commit_stand_below_once_for_all_commands_there():
    text = table.table([document(row("a", 1)), document(row("b", 2), command="python benchmarks/soak.py")])
    assert text.count("A Processor") == 1
    assert "`python benchmarks/peers.py`, `python benchmarks/soak.py`" in text
    assert "commit abc123, 2026-01-02" in text
    assert "fastapi" not in text


def test_no_results_say_so():
    assert "No results yet" in table.table([])


@pytest.fixture
def place(tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    (results / "peers.json").write_text(json.dumps(document(row("decode", 1))))
    readme = tmp_path / "README.md"
    readme.write_text(f"# Title\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    return readme, ["--readme", str(readme), "--results", str(results)]


def test_the_readme_is_rewritten_between_its_markers_alone(place):
    readme, flags = place
    assert table.main(["--check", *flags]) == 1
    assert table.main(flags) == 0
    text = readme.read_text()
    assert text.startswith(f"# Title\n{table.BEGIN}\n| what |")
    assert text.endswith(f"{table.END}\nafter\n")
    assert "old" not in text
    assert table.main(["--check", *flags]) == 0


@pytest.mark.parametrize(
    "text", ["no markers", f"{table.END}\n{table.BEGIN}", f"{table.BEGIN}{table.BEGIN}{table.END}"]
)
def test_a_readme_without_its_markers_is_left_alone(place, capsys, text):
    readme, flags = place
    readme.write_text(text)
    assert table.main(flags) == 2
    assert readme.read_text() == text
    assert "README.md must hold" in capsys.readouterr().err
