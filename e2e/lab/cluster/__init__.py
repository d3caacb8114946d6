"""What the nodes of a lab share: the control plane, a registry, images, the operator."""
