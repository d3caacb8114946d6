"""Faults during a kubelet upgrade, injected into real nodes by `make e2e-faults` and the end-to-end tests."""
