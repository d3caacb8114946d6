"""What a node is like, as facts that the checks judge: mounts, cgroups, packages, space."""
