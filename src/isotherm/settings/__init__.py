"""One table of settings, and how their values are found, explained and documented."""
