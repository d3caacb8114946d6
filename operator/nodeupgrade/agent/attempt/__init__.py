"""One attempt at a run: what earlier ones have left, the examination of the node, the plan, and the handing over."""
