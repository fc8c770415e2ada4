"""Paged KV memory: who holds which block, and which prefixes can be reused."""
