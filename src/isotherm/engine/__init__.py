"""Sequences in, tokens out: schedule, run, sample, stream."""
