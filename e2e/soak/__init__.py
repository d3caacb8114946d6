"""Swaps on real nodes, drawn at random, for as long as they are let run."""
