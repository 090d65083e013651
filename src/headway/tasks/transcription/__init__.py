"""Transcription of speech: sound in, text with times out. Radford et al. 2023 (Whisper)."""
