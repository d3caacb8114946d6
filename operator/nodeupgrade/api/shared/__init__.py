"""The parts of the spec that a NodeUpgrade and a NodeUpgradeTask share."""
