"""What a kubelet keeps on disk from one start to the next: how it is written, and whether a kubelet can read it."""
