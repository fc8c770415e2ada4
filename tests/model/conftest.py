"""Settings of property tests in this room."""

from hypothesis import settings

# Machines that test are shared: a slow example says nothing.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
