"""Values and decisions: what is true of a node, what may be done to it, and what comes next.

Nothing here performs I/O, reads a clock or awaits. Everything is a frozen value or a pure function, so a
decision can be replayed from what was recorded.
"""
