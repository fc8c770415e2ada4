"""What a folder tells about its effort texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotherm.base.effort import APRIL, JULY
from isotherm.model.checkpoint import open_checkpoint
from isotherm.model.deepseek_v4.effort import ENCODER, effort_texts
from isotherm.model.deepseek_v4.tiny import write_tiny

OLD = 'REASONING_EFFORT_MAX = "..."\nassert reasoning_effort in ("max", None, "high")\n'
NEW = 'REASONING_EFFORT_PROMPTS = {"low": ""}\nREASONING_EFFORT_MAX = REASONING_EFFORT_PROMPTS.get("max")\n'


@pytest.mark.parametrize(
    ("code", "name", "table", "reason"),
    [
        (OLD, "V4-Flash-0731", APRIL, "encoding/encoding_dsv4.py has REASONING_EFFORT_MAX"),
        (NEW, "V4-Flash", JULY, "encoding/encoding_dsv4.py has REASONING_EFFORT_PROMPTS"),
        ("def encode(): ...", "deepseek-ai/DeepSeek-V4-Flash-0731", JULY, "from the name"),
        (None, "DeepSeek-V4-Flash-0731", JULY, "from the name"),
        (None, "DeepSeek-V4-Flash-DSpark", APRIL, "assumed"),
        ("\udcff", "x", APRIL, "assumed"),
    ],
)
def test_the_makers_code_decides_then_the_name(
    tmp_path: Path, code: str | None, name: str, table: str, reason: str
) -> None:
    if code is not None:
        (tmp_path / ENCODER).parent.mkdir()
        (tmp_path / ENCODER).write_bytes(code.encode("utf-8", "surrogateescape"))
    found = effort_texts(tmp_path, name)
    assert (found.table, found.reason[: len(reason)]) == (table, reason)


def test_an_opened_checkpoint_has_it_and_its_code_is_not_run(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    (tmp_path / ENCODER).parent.mkdir()
    (tmp_path / ENCODER).write_text(NEW + "raise SystemExit(1)\n")
    texts = open_checkpoint(str(tmp_path)).tokenizer.effort_texts
    assert texts is not None
    assert str(texts) == "0731 (encoding/encoding_dsv4.py has REASONING_EFFORT_PROMPTS)"
