"""The kubelet's state files: their checksums and fields."""
