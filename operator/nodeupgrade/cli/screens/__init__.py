"""How things look on a screen. Everything shown was worked out elsewhere."""
