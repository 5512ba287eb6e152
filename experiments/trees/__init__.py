"""Token trees beside chains."""
