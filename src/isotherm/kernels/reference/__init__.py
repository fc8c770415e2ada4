"""The operations in plain PyTorch: correct on any device, and what every faster twin is tested against."""
