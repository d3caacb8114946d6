"""What the commands report, as values. Nothing here prints."""
