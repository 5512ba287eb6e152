"""Clocks: decoding beside transformers, replay beside the loop."""
