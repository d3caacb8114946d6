"""The operator: kopf tells which NodeUpgrades changed, a work queue says which is next, the engine does the rest."""
