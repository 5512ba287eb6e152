"""Speculative decoding: drafts, the acceptance rule, the loop, what is recorded, and what theory says of it."""
