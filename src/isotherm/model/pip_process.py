"""pip in a process that dies with its parent: ``python -m isotherm.model.pip_process PARENT_PID ARGUMENTS...``.

The parent cannot arrange this from outside: code between fork and exec is not safe in a process with threads,
and a server that fetches its model has some.
"""

from __future__ import annotations

import runpy
import sys

from isotherm.base.orphan import die_with_parent


def main(arguments: list[str]) -> None:
    """Become ``python -m pip``; leaves by SystemExit, as pip does."""
    die_with_parent(int(arguments[0]))
    sys.argv[1:] = arguments[1:]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
