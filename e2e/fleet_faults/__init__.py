"""A fault proxy between operators and an API server in memory, in virtual time: ``python -m e2e.fleet_faults``.

Each trial is a rollout with two operators, faults chosen by a seed, and oracles on every write. It needs neither a lab
nor root.
"""
