"""A model checker for the fleet's real code: all orders of steps and events in small worlds.

``python -m tests.model --world one --disturbances 1`` searches one; ``make model`` both, to the end.
``python -m tests.model.walks --seed 1 --count 100`` walks at random through a larger one.
``python -m tests.model.defects H1`` looks for one known defect and tells its story; with ``--back``, it is put back
first (``switches``).

A state is a dictionary of shared objects (``store``) with a canonical text each (``canonical``), and what the operator
remembers. States are the same if they differ only in clocks, versions, IDs of runs, and in what is remembered and can
decide nothing (``adapter``); nothing else is merged, and no order of steps is left out. What a call comes to is worked
out once for all states in which the operator sees and remembers the same.

Only ``adapter`` knows the operator. ``steps`` has the transitions, ``nodeside`` and ``events`` what happens beside the
operator, ``invariants`` what must hold of each write, ``liveness`` what everything must come to.
"""
