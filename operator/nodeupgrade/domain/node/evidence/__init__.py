"""Evidence that nothing restarted: compare inventories, and attribute what ended to the kubelet or to another cause."""
