"""NodeUpgrade: one rollout, as a person wrote it (``spec``) and as the control plane reports on it (``status``).

Each field is declared once, with its type, default, bounds, rules and description.
"""
