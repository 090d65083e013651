"""Chat: a language model learns to follow instructions (supervised fine-tuning)."""
