"""What Nano learns: one skill a file, each making items and judging answers. Pure Python, no network, no torch."""
