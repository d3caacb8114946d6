"""What the commands report, as values; nothing is printed here."""
