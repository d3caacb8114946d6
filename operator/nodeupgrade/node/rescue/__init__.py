"""The script that brings the old kubelet back when nothing else can."""
