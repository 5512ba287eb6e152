"""How every figure looks: style, colours, labels, and which records are shown."""
