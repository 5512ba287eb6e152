"""The acceptance rules on the same texts."""
