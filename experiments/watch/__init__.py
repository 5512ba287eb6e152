"""What a person watches token by token: a text as it comes, its rounds, recorded runs."""
