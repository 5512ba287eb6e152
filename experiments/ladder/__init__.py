"""Low-bit formats as drafts: the ladder, its frontier and laws, mixed widths, slices, tuned copies."""
