"""The hashes to write, each with proof that the stored one is understood."""
