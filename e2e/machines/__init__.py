"""Nodes that are virtual machines, upgraded: a kernel, a disk and clocks of their own, and what happens to those.

``python -m e2e.machines`` prints the table; ``docs/measured/machines.jsonl`` is its last result.
"""
