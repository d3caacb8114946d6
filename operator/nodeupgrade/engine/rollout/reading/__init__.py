"""What a pass reads: lists or caches, kept up to date by events and by what we write ourselves."""
