"""A slow start shows that it is alive and how far it is; a quick one says nothing."""

import asyncio
import io

import pytest

from isotherm.cli import loading


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def quicker(monkeypatch):
    monkeypatch.setattr(loading, "_SILENT_SECONDS", 0.02)
    monkeypatch.setattr(loading, "_LINE_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(loading, "_REWRITTEN_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(loading, "_HINT_AFTER_SECONDS", 0.05)


async def watched(stream, seconds, *layers):
    told = loading.Loading("loading m", loading.screen_of(stream))
    async with told.shown():
        for done in layers or (0,):
            told.layers(done, 43)
            await asyncio.sleep(seconds)
    return stream.getvalue()


async def test_a_quick_start_is_silent():
    assert await watched(io.StringIO(), 0, 1, 2, 43) == ""


async def test_lines_for_a_log_with_the_reason_when_it_takes_long():
    lines = (await watched(io.StringIO(), 0.3)).splitlines()
    assert lines[0] == "loading m ... 0 s"
    assert "compiles its kernels" in lines[-1]


async def test_a_terminal_has_one_line_that_is_cleared_at_the_end():
    text = await watched(Terminal(), 0.1)
    assert "\n" not in text
    assert text.endswith("\r\x1b[K")


async def test_a_terminal_shows_a_bar_while_layers_come():
    text = await watched(Terminal(), 0.1, 11, 33, 43)
    assert "\rloading m [######..................] 11 of 43 layers ... 0 s\x1b[K" in text
    assert text.index("11 of 43") < text.index("33 of 43") < text.index("compiles its kernels")


async def test_a_log_has_the_count_without_a_bar():
    lines = (await watched(io.StringIO(), 0.1, 11)).splitlines()
    assert set(lines) == {"loading m 11 of 43 layers ... 0 s"}
