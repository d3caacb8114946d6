"""Leader election among the replicas of the operator."""
