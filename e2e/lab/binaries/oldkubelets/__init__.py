"""Kubelets before 1.15, which have no Go module file of their own: the modules they are built from, and why."""
