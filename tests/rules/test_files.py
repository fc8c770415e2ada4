"""Size and shape of files and functions: anybody can read one at a sitting."""

import ast
import statistics

import pytest

from rules.source import PACKAGE, ROOT, kept_files, package_files, python_files, tree

LONGEST_FILE = 400
TEXT_SUFFIXES = {".py", ".js", ".css", ".html", ".sh", ".toml", ".yml", ".yaml"}


def lines_of(path):
    return path.read_text(encoding="utf-8").count("\n")


def functions():
    for path in package_files():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def test_no_source_file_is_longer_than_the_limit():
    sources = [path for path in kept_files() if path.suffix in TEXT_SUFFIXES or path.name == "Makefile"]
    long = {str(path.relative_to(ROOT)): lines_of(path) for path in sources if lines_of(path) > LONGEST_FILE}
    assert not long


def test_most_files_and_functions_are_short():
    files = [lines_of(path) for path in package_files()]
    bodies = sorted(node.end_lineno - node.lineno + 1 for _, node in functions())
    assert statistics.median(files) <= 150
    assert statistics.median(bodies) <= 12
    assert bodies[int(len(bodies) * 0.95)] <= 40


@pytest.mark.parametrize("path", python_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_says_first_what_it_is_for(path):
    assert ast.get_docstring(tree(path)), "the module has no docstring"


@pytest.mark.parametrize(
    "path", [path for path in package_files() if path.name == "__init__.py"], ids=lambda path: str(path.parent.name)
)
def test_a_package_init_holds_only_a_docstring(path):
    rest = tree(path).body[1:]
    if path.parent == PACKAGE:
        assert [ast.unparse(node).split(" = ")[0] for node in rest] == ["__version__"]
    else:
        assert rest == []


def test_every_argument_is_annotated():
    bare = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}({argument.arg})"
        for path, node in functions()
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if argument.annotation is None and argument.arg not in {"self", "cls"}
    ]
    assert not bare


def test_tests_mirror_the_rooms():
    tested = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    rooms = {
        path.parent.name for path in package_files() if path.name != "__init__.py" and path.parent.parent == PACKAGE
    }
    assert rooms <= tested, f"rooms without tests: {rooms - tested}"
