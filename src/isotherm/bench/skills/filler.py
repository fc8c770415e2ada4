"""Sentences that say nothing: what facts are hidden among."""

from __future__ import annotations

from isotherm.bench.skills.source import Source

KINDS = ("small", "old", "quiet", "bright", "heavy", "wooden", "grey", "warm", "empty", "tall", "round", "clean")
THINGS = ("table", "lamp", "bottle", "door", "basket", "mirror", "stone", "ladder", "clock", "chair", "bridge", "wheel")
PLACES = ("garden", "station", "kitchen", "market", "harbour", "library", "forest", "office", "street", "valley")
DEEDS = ("painted", "moved", "repaired", "carried", "found", "sold", "cleaned", "watched", "lifted", "counted")


def sentence(source: Source) -> str:
    """About ten tokens."""
    who = source.name() if source.chance(0.3) else f"The {source.pick(KINDS)} {source.pick(THINGS)}"
    if who.startswith("The "):
        return f"{who} stands near the {source.pick(PLACES)}."
    return f"{who} {source.pick(DEEDS)} the {source.pick(KINDS)} {source.pick(THINGS)} in the {source.pick(PLACES)}."
