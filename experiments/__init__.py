"""Everything that prints, writes, plots or is run by a person."""
