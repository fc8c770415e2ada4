"""Text to tokens and back: pure, no torch, no network."""
