"""Low-bit formats, and what they cost to the byte. Knows torch modules, no model in particular."""
