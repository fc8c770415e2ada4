"""Write the reference page of the settings from the table."""

from __future__ import annotations

from isotherm.settings.table import OTHER_ENVIRONMENT, TABLE, Setting

_HEAD = """# Settings

Generated from `src/isotherm/settings/table.py` by `make docs`; do not edit.

The first of these that gives a value wins: flag, environment variable, YAML file (`--config FILE`), built-in.
`isotherm serve --explain` prints the winner and the losers of every setting and stops.
Sizes take units (`512MiB`, `2GB`), durations too (`250ms`, `10m`).
The YAML file is one flat mapping of the names below.
A value that cannot be used and a name that does not exist stop the start with exit code 2.
"""


def render() -> str:
    """The page as Markdown, newline at the end."""
    parts = [_HEAD]
    for group in dict.fromkeys(setting.group for setting in TABLE):
        rows = [_row(setting) for setting in TABLE if setting.group == group]
        parts.append(f"## {group.capitalize()}\n")
        parts.append(
            "| setting | command line | environment | value | built-in | what it does |\n|---|---|---|---|---|---|"
        )
        parts.append("\n".join(rows) + "\n")
    parts.append("## Other environment variables\n\n| variable | what it does |\n|---|---|")
    parts.append("\n".join(f"| `{name}` | {text} |" for name, text in OTHER_ENVIRONMENT.items()) + "\n")
    return "\n".join(parts)


def _row(setting: Setting) -> str:
    option = f"`{setting.option}`" if setting.flag else "none (secret)"
    name = f"`{setting.name}`" if setting.in_file else f"`{setting.name}` (not in the file)"
    kind = setting.kind.metavar.replace("|", "\\|")
    default = setting.show(setting.default).replace("|", "\\|")
    return f"| {name} | {option} | `{setting.env}` | `{kind}` | {default} | {setting.help} |"
