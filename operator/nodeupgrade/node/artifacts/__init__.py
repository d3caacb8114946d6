"""Kubelet programs: downloading and staging."""
