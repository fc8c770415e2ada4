"""What may not stand in the repository: paths of one machine, leftovers, blanket excuses."""

import ast
import re

import pytest

from rules.source import ROOT, kept_files, package_files, tree

THIS_RULE = ROOT / "tests" / "rules" / "test_words.py"
EVERYWHERE = re.compile(
    r"(?<![\w.])/(?:work|root|home/\w+)/"  # somebody's machine
    r"|\bshared/(?:cases|design|vectors|hooks)"
    r"|\bissue #?\d+\b"
    r"|<<<<<<<|>>>>>>>",
    re.IGNORECASE,
)
IN_SOURCE_AND_DOCS = re.compile(r"(?<![\w.])/tmp/|\bTODO\b|\bFIXME\b|\bXXX\b")
IN_SOURCE = re.compile(r"\bpdb\b|\bbreakpoint\(")


def texts():
    for path in kept_files():
        data = path.read_bytes()
        if path != THIS_RULE and b"\0" not in data[:8192]:
            yield path, data.decode("utf-8", errors="replace")


def findings(pattern, chosen):
    return [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}"
        for path, text in texts()
        if chosen(path)
        for match in pattern.finditer(text)
    ]


def test_no_file_speaks_of_one_machine_or_of_how_it_was_made():
    assert not findings(EVERYWHERE, lambda path: "cases" not in path.parts)


def test_source_and_docs_hold_no_scratch_paths_and_no_leftovers():
    shown = {"src", "docs", "benchmarks", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile"}
    assert not findings(IN_SOURCE_AND_DOCS, lambda path: path.relative_to(ROOT).parts[0] in shown)


def test_source_has_no_debugging_left():
    assert not findings(IN_SOURCE, lambda path: path in package_files())


@pytest.mark.parametrize("path", package_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_who_catches_everything_raises_it_again(path):
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ExceptHandler) and (node.type is None or ast.unparse(node.type) == "BaseException"):
            assert any(isinstance(inner, ast.Raise) and inner.exc is None for inner in node.body), node.lineno


@pytest.mark.parametrize("path", package_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_an_ignore_names_what_it_ignores(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"# type: ignore(?!\[)|# noqa(?!:)", text)
