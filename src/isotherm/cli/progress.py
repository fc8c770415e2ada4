"""What a command that takes a while is doing, on stderr."""

from __future__ import annotations

import sys

from isotherm.cli.screen import harmless


class Progress:
    """One line that is rewritten on a terminal, a line for each new phase elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._phase = ""

    def show(self, text: str) -> None:
        """Replace the line; off a terminal only a new phase (the text before the colon) is worth a line."""
        phase = text.partition(":")[0]
        if self._live:
            sys.stderr.write(f"\r\x1b[K{harmless(text)}")
        elif phase != self._phase:
            sys.stderr.write(f"{harmless(text)}\n")
        self._phase = phase
        sys.stderr.flush()

    def clear(self) -> None:
        """Leave a terminal's line empty for what comes next."""
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
