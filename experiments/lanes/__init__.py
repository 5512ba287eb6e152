"""What a fixed number of rows a pass is good for, and what it costs."""
