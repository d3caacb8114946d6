"""Upstream's NodeConformance specs on a node that was upgraded in place, beside a fresh node of the same version.

``python -m e2e.conformance`` runs them; ``docs/measured/node-conformance.jsonl`` is its last result. Specs and the
program in their pods are built from the public Go module of the release.
"""
