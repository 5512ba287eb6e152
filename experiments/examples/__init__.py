"""Scripts to read, run and change: each is one use of the workshop from its first step to its last."""
