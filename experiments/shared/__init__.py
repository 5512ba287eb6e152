"""A draft over the target's own cache."""
