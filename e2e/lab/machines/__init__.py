"""Nodes that are virtual machines: their disks, their emulator, and how they are reached."""
