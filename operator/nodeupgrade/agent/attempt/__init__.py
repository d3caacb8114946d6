"""One attempt at a run: remains of earlier runs, examination of the node, preparation, and handover."""
