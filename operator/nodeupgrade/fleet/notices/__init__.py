"""Notices for people who do not watch a rollout."""
