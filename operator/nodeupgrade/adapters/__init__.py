"""Adapters: implementations of the ports. Each external system has its package; vendor libraries stay inside."""
