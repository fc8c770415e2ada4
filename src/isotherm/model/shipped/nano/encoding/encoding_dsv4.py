"""Prompts are laid out by deepseek-recipe, with its REASONING_EFFORT_PROMPTS of 0731."""
