"""Looks at a deployment from outside and measures it; speaks HTTP and imports no torch."""
