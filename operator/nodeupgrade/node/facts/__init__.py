"""Gathers what is on a node before anything is decided. Changes nothing."""
