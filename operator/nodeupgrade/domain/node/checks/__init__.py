"""Checks: what forbids touching a node. They judge gathered facts and read nothing themselves."""
