"""Code that the runtimes share, most of them through the CRI."""
