"""The DeepSeek-V4 architecture: its configuration, its checkpoints, its network."""
