"""What the commands read: files, and the objects of a cluster."""
