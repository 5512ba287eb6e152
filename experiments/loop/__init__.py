"""The real loop beside replay, on the same texts."""
