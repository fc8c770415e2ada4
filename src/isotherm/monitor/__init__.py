"""One table of metrics, and what fills it."""
