"""Operations on tensors: a reference in plain PyTorch, faster twins beside it, one place that chooses."""
