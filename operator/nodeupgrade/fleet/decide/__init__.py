"""Decisions about rollouts. Pure."""
