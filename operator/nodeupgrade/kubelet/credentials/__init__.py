"""The credentials that a kubelet uses: its kubeconfig and its certificates."""
