"""Isotherm: a serving stack that keeps reasoning models coherent."""

__version__ = "0.1.0"
