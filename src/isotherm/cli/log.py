"""The log on stderr: a line of text a record, or a JSON object a line with every extra field."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from isotherm.cli.screen import harmless

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonFormatter(logging.Formatter):
    """One JSON object a record: time (UTC), level, logger, message, and what the caller passed as ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extras(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """Time, level, message and extra fields, for people."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        fields = "".join(f" {name}={value}" for name, value in _extras(record).items())
        text = harmless(f"{moment} {record.levelname.lower()}: {record.getMessage()}{fields}").replace("\n", " ")
        return text if not record.exc_info else f"{text}\n{self.formatException(record.exc_info)}"


def configure(form: str, level: str) -> None:
    """Send our records and uvicorn's to stderr. ``form`` is text or json, ``level`` a name of logging's."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("isotherm", "uvicorn"):
        logging.getLogger(name).setLevel(level.upper())
    # uvicorn tells each start and stop at info; ours are the ones that say something.
    logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, logging.getLogger("uvicorn").level))


def _extras(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}
