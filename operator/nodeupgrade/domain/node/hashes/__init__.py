"""Plan which hashes to write, with proof that each stored hash is understood."""
