"""What the rules look at: the repository's files, and the modules of the package as syntax trees."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "isotherm"
ROOMS = tuple(sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()))


@cache
def kept_files() -> tuple[Path, ...]:
    """Files that git tracks or would track; in an unpacked archive, without git, every file of ours."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    )  # fmt: skip
    return tuple(ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file())


def python_files() -> tuple[Path, ...]:
    return tuple(path for path in kept_files() if path.suffix == ".py")


def package_files() -> tuple[Path, ...]:
    return tuple(path for path in python_files() if path.is_relative_to(PACKAGE))


def room_of(path: Path) -> str:
    """The room that a module of the package lies in; empty for those beside the rooms."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that a file imports when it runs, at any depth, with its line; types only are left out."""
    for node in _runtime_nodes(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield _base(node, path), node.lineno


def _runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for other in child.orelse:
                yield from _runtime_nodes(other)
            continue
        yield child
        yield from _runtime_nodes(child)


def _base(node: ast.ImportFrom, path: Path) -> str:
    if not node.level:
        # `from isotherm import model` names the room in its alias.
        return f"isotherm.{node.names[0].name}" if node.module == "isotherm" else node.module or ""
    package = path.relative_to(PACKAGE.parent).parts[: -node.level]
    return ".".join([*package, *((node.module,) if node.module else ())])
