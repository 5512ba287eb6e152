"""Every way to draft on one scale."""
