"""The operator: kopf watches NodeUpgrades, handlers feed a work queue, and workers reconcile with the engine."""
