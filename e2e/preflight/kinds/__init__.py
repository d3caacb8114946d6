"""All rows, by idea."""

from e2e.preflight.kinds import (
    admission,
    asked,
    condition,
    confined,
    credentials,
    kubelet,
    node,
    pods,
    runtime,
    startup,
    state,
    surroundings,
)
from e2e.preflight.row import Row

ROWS: tuple[Row, ...] = (
    *asked.ROWS,
    *node.ROWS,
    *kubelet.ROWS,
    *runtime.ROWS,
    *pods.ROWS,
    *admission.ROWS,
    *startup.ROWS,
    *state.ROWS,
    *condition.ROWS,
    *confined.ROWS,
    *surroundings.ROWS,
    *credentials.ROWS,
)
