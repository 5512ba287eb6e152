"""micro: a Llama small enough to read, its sampling, its text and its training."""
