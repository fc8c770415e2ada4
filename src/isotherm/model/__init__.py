"""Checkpoints, their configuration and the networks that turn weights into logits."""
