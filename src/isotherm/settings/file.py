"""Read a YAML file of settings: one flat mapping of names to values, each name once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from isotherm.base.errors import SetupError

if TYPE_CHECKING:
    from yaml import MappingNode


def read_file(path: Path) -> dict[str, object]:
    """Names and raw values of the file, not yet checked; raises SetupError that names file and line."""
    import yaml  # noqa: PLC0415  only runs with a file pay for it

    class Loader(yaml.SafeLoader):
        """YAML keeps the last of two equal keys without a word; here that is an error."""

        def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[object, object]:
            seen = set()
            for key, _ in node.value:
                if str(key.value) in seen:
                    raise yaml.MarkedYAMLError(problem=f"{key.value!r} stands twice", problem_mark=key.start_mark)
                seen.add(str(key.value))
            return dict(super().construct_mapping(node, deep))

    try:
        lines = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except OSError as problem:
        raise SetupError(f"Cannot read the settings file {path}: {problem.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise SetupError(f"The settings file {path} is not valid YAML: {problem}") from None
    if lines is None:
        return {}
    if not isinstance(lines, dict) or not all(isinstance(key, str) for key in lines):
        raise SetupError(f"The settings file {path} must be a mapping of names to values, for example `port: 8000`.")
    return lines
