"""What the engine needs of one node: its kubelet, runtime, units and files."""
