"""What the commands read: files, and objects of a cluster."""
