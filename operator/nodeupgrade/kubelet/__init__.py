"""What is known of kubelets: their flags, files and settings across versions."""
