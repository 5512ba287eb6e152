"""Speculative text beside plain text, bit for bit."""
