"""One thin file a verb; the only room that may import every other."""
