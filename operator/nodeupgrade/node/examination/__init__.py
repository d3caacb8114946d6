"""From a node's facts to its plan, or to the findings that forbid one."""
