"""Nodes as clouds, distributions and installers lay them out, each upgraded there and back, twice, with a control.

``python -m e2e.layouts`` prints the table; ``docs/measured/layouts.jsonl`` is its last result. Each module describes a
family of layouts, from the facts of the sources that it names: where the kubelet lies, how its unit starts it, where
flags and configuration are. Only what concerns a kubelet's start is laid out: it is a Debian system all the same.
"""
