"""Renders containers as Go programs print them, and reads values as they do."""
