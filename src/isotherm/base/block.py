"""The size of a block of key/value cache for Llama-type models."""

from __future__ import annotations

BLOCK_SIZE = 32
"""Tokens a block. Two vectors of sixteen lanes: the decode kernel keeps a block's scores in registers."""
