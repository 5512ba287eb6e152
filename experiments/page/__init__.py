"""Records to one self-contained HTML page."""
