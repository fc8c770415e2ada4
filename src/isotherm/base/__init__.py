"""Plain types that every room may use: no I/O, no torch, no network."""
