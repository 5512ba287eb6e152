"""Is speculation exact, and would a fault in it be noticed? Tiers of checks, and faults planted to be caught."""
