"""What is left behind in the cluster, and taken away: orphaned cordons, guards and agents."""
