"""Knowledge about kubelets: their history, flags, settings, files and kubeconfigs across versions."""
