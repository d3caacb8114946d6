"""What can go wrong while a kubelet is upgraded, done to real nodes: for `make e2e-faults` and the end-to-end tests."""
