"""Say which value of each setting is in force, who gave it, and which others it beat."""

from __future__ import annotations

from isotherm.settings.load import Entry, Settings


def explain(settings: Settings) -> str:
    """One line a setting, aligned, with the losers indented below their winner."""
    width = max(len(entry.setting.name) for entry in settings)
    return "\n".join(line for entry in settings for line in _lines(entry, width))


def _lines(entry: Entry, width: int) -> list[str]:
    show = entry.setting.show
    lines = [f"{entry.setting.name:<{width}}  {show(entry.winner.value)}  ({entry.winner.where})"]
    for loser in entry.losers:
        lines.append(f"{'':<{width}}    over {show(loser.value)}  ({loser.where})")
    return lines
