"""What runs on a node, found without any code of the operator: the oracle for "nothing restarted"."""
