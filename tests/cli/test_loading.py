"""A slow start shows that it is alive; a quick one says nothing."""

import asyncio
import io

from isotherm.cli import loading


class Terminal(io.StringIO):
    def isatty(self):
        return True


async def watched(monkeypatch, stream, seconds):
    monkeypatch.setattr(loading, "_SILENT_SECONDS", 0.02)
    monkeypatch.setattr(loading, "_LINE_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(loading, "_HINT_AFTER_SECONDS", 0.05)
    async with loading.progress("loading m", stream):
        await asyncio.sleep(seconds)
    return stream.getvalue()


async def test_a_quick_start_is_silent(monkeypatch):
    assert await watched(monkeypatch, io.StringIO(), 0) == ""


async def test_lines_for_a_log_with_the_reason_when_it_takes_long(monkeypatch):
    lines = (await watched(monkeypatch, io.StringIO(), 0.3)).splitlines()
    assert lines[0] == "loading m ... 0 s"
    assert "compiles its kernels" in lines[-1]


async def test_a_terminal_has_one_line_that_is_cleared_at_the_end(monkeypatch):
    text = await watched(monkeypatch, Terminal(), 0.1)
    assert "\n" not in text
    assert text.endswith("\r\x1b[K")
