"""NodeUpgradeTask: one node's share of a rollout. The control plane writes the spec, the node side the status.

Each field is declared once, with its type, default, bounds, rules and description.
"""
