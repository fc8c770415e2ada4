"""Which effort texts a DeepSeek-V4 checkpoint was made with, as far as its folder tells.

``config.json`` and the tokenizer are the same on both sides of the change, and the keys and tensors of the newer draft
block (``dspark_*``) came earlier, with a preview. Only the makers' own prompt code, which lies beside the weights,
tells for certain. It is read as text and never run.
"""

from __future__ import annotations

from pathlib import Path

from isotherm.base.effort import APRIL, JULY, EffortTexts

ENCODER = Path("encoding") / "encoding_dsv4.py"
"""The makers' prompt code inside a checkpoint's folder."""
MARKS = {"REASONING_EFFORT_PROMPTS": JULY, "REASONING_EFFORT_MAX": APRIL}
"""Names that the code of one side alone has; the newer one's first, for it might mention the older one's."""
MAX_BYTES = 1 << 20
NEWER_NAME = "0731"


def effort_texts(folder: Path, name: str) -> EffortTexts:
    """What the folder's prompt code says, else what the name does, else the table that adds the least to a prompt."""
    code = _start_of(folder / ENCODER)
    for mark, table in MARKS.items():
        if mark in code:
            return EffortTexts(table, f"{ENCODER.as_posix()} has {mark}")
    if NEWER_NAME in name:
        return EffortTexts(JULY, f"from the name {name}")
    return EffortTexts(APRIL, "assumed: neither the folder nor its name tells; --effort-texts sets it")


def _start_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
