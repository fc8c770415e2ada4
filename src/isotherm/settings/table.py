"""Every setting there is, once: flags, environment names, YAML keys and the reference come from here.

To add a setting, add a row. Values travel by name (``settings["port"]``), each with its origin.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from isotherm.base.effort import TABLES as EFFORT_TABLES
from isotherm.settings.kinds import Integer, JsonObject, Kind, Seconds, Size, Switch, Text, TextList

ENV_PREFIX = "ISOTHERM_"
DEFAULT_MODEL = "smollm2-135m"


@dataclass(frozen=True, slots=True)
class Setting:
    """One row. ``flag`` is False for secrets: a command line is visible to every user of a machine.

    ``in_file`` is False for the name of the file itself; ``positional`` settings are given without a
    flag; ``secret`` values are never printed.
    """

    name: str
    kind: Kind
    default: Any
    help: str
    group: str
    verbs: tuple[str, ...] = ("serve",)
    positional: bool = False
    flag: bool = True
    in_file: bool = True
    secret: bool = False

    @property
    def env(self) -> str:
        """Name of the environment variable."""
        return ENV_PREFIX + self.name.upper()

    @property
    def option(self) -> str:
        """How the setting is written on a command line."""
        return self.name.upper() if self.positional else "--" + self.name.replace("_", "-")

    def show(self, value: object) -> str:
        """The value for people; a secret is counted, not printed."""
        if not self.secret or not value:
            return self.kind.show(value)
        return f"{len(value)} hidden" if isinstance(value, tuple) else "hidden"


TABLE: tuple[Setting, ...] = (
    Setting(
        "model",
        Text(placeholder="MODEL"),
        DEFAULT_MODEL,
        "Model to serve: a catalogue name (`isotherm models list`), a .gguf file, a Hugging Face folder or hub id.",
        "model",
        positional=True,
    ),
    Setting(
        "served_model_name",
        Text(placeholder="NAME", optional=True),
        None,
        "Name that clients use for the model; none takes the model's own.",
        "model",
    ),
    Setting(
        "dtype",
        Text(choices=("auto", "float32", "bfloat16")),
        "auto",
        "auto keeps 4- and 8-bit weights as they are and computes in the format that is fastest here; the others "
        "turn all weights into that format.",
        "model",
    ),
    Setting(
        "kv_dtype",
        Text(choices=("auto", "fp8_e4m3", "bfloat16", "float32")),
        "auto",
        "Precision of the KV cache; auto is bfloat16 for DeepSeek-V4 and the dtype of the linear layers for others.",
        "model",
    ),
    Setting(
        "kernels",
        Text(choices=("auto", "stock-attend", "stock-index", "stock")),
        "auto",
        "Kernels of DeepSeek-V4 on a CPU; the stock ones (attention head by head, an indexer over the longest possible "
        "context, or both) are slow on purpose, to compare with.",
        "model",
    ),
    Setting(
        "effort_texts",
        Text(choices=("auto", *EFFORT_TABLES)),
        "auto",
        "What effort words put into DeepSeek-V4's prompts: as in April's preview, or as since the refresh of 31 July; "
        "auto takes what the checkpoint's own prompt code has.",
        "model",
    ),
    Setting(
        "max_model_len",
        Integer(16, 10_000_000, auto=True),
        None,
        "Longest prompt plus answer, in tokens; auto takes the model's own limit.",
        "model",
    ),
    Setting(
        "offline",
        Switch(),
        False,
        "Fetch nothing: use only models that are already on this machine.",
        "model",
        verbs=("serve", "models"),
    ),
    Setting(
        "host", Text(placeholder="ADDRESS"), "127.0.0.1", "Address to listen on; 0.0.0.0 opens it to all.", "address"
    ),
    Setting("port", Integer(0, 65535), 8000, "Port to listen on; 0 takes a free one.", "address"),
    Setting(
        "config", Text(placeholder="FILE", optional=True), None, "YAML file of settings.", "address", in_file=False
    ),
    Setting("max_num_seqs", Integer(1, 4096), 32, "Sequences that run at once; the rest wait in order.", "engine"),
    Setting(
        "max_queue",
        Integer(0, 1_000_000),
        1024,
        "Sequences that may wait; a request beyond that is refused with 429 and Retry-After.",
        "engine",
    ),
    Setting(
        "kv_memory", Size(1 << 20, auto=True), None, "Memory for the KV cache; auto fits it to the machine.", "engine"
    ),
    Setting(
        "kv_snapshots",
        Integer(0, 65_536, auto=True),
        None,
        "States kept so that later prompts can begin there (DeepSeek-V4); auto takes up to 256 and a quarter of the "
        "memory, 0 reuses no prefixes.",
        "engine",
    ),
    Setting(
        "threads",
        Integer(1, 1024, auto=True),
        None,
        "Compute threads; auto obeys OMP_NUM_THREADS, else takes the cores.",
        "engine",
    ),
    Setting(
        "deterministic",
        Switch(),
        False,
        "The same tokens for a greedy or seeded request alone and in any crowd.",
        "engine",
    ),
    Setting("debug_integrity", Switch(), False, "Check the block pool whenever the engine is idle.", "engine"),
    Setting(
        "default_sampling",
        JsonObject(),
        MappingProxyType({}),
        "Sampling values for requests that do not set them; they win over the model's own.",
        "requests",
    ),
    Setting("strict", Switch(), False, "Refuse requests with unknown fields (400) instead of warning.", "requests"),
    Setting("max_body_bytes", Size(1024), 4 << 20, "Largest request body.", "requests"),
    Setting(
        "request_timeout", Seconds(0.1, 86_400), 600.0, "Longest time for one request, queueing included.", "requests"
    ),
    Setting(
        "drain_timeout",
        Seconds(0, 3600),
        30.0,
        "Time that running requests get to finish when the server is told to stop.",
        "requests",
    ),
    Setting(
        "api_keys",
        TextList(),
        (),
        "Keys that clients must present; none lets every client in.",
        "access",
        flag=False,
        secret=True,
    ),
    Setting(
        "api_key_file",
        Text(placeholder="FILE", optional=True),
        None,
        "File with one key a line (# starts a comment), added to api_keys.",
        "access",
    ),
    Setting("log_format", Text(choices=("text", "json")), "text", "Form of the log on stderr.", "log"),
    Setting(
        "log_level", Text(choices=("debug", "info", "warning", "error")), "info", "Least level that is logged.", "log"
    ),
    Setting(
        "url", Text(placeholder="URL"), "http://127.0.0.1:8000", "Server to talk to.", "client", verbs=("chat", "bench")
    ),
    Setting(
        "api_key",
        Text(optional=True),
        None,
        "Key to present to the server.",
        "client",
        verbs=("chat", "bench"),
        flag=False,
        secret=True,
    ),
)

BY_NAME = MappingProxyType({setting.name: setting for setting in TABLE})

OTHER_ENVIRONMENT = MappingProxyType(
    {
        "ISOTHERM_CACHE": "Folder for fetched models and compiled kernels; ~/.cache/isotherm if unset.",
    }
)
"""Variables with our prefix that are not settings; a name in neither place is refused as a likely typo."""


def of_verb(verb: str) -> tuple[Setting, ...]:
    """The settings that a verb of the command line takes, in table order."""
    return tuple(setting for setting in TABLE if verb in setting.verbs)
