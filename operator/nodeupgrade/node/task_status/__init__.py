"""What a NodeUpgradeTask reports of a run."""
