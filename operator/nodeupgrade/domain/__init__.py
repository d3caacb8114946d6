"""Values and decisions: the state of a node, what may be done to it, and what comes next.

Nothing here performs I/O, reads a clock or awaits. Everything is a frozen value or a pure function, so every
decision can be replayed from recorded input.
"""
