"""Who generates: each module implements ``base.backend.Backend``."""
