"""Carries decisions out over ports: one node's run, and one rollout's loop. No vendor library is known here."""
