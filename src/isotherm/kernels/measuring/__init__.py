"""How fast the operations of DeepSeek-V4 are on this machine, how exact, and how far from what it can do."""
