"""How many tokens to draft: adaptive rules beside the best fixed number."""
