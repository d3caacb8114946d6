"""Docker, reached through its own API: the runtime of kubelets that contain dockershim, and beneath cri-dockerd."""
