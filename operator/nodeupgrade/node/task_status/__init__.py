"""The status of a NodeUpgradeTask."""
