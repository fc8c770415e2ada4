"""The OpenAI-compatible HTTP server; it is given a backend and never imports an engine."""
