"""How Nano, the small DeepSeek-V4 model of ours, is made: conversations, tokenizer, network, training."""
