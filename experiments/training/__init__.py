"""Training on the command line: micro and its siblings, low-bit copies, heads."""
