"""The engine's interfaces to the outside world, as Protocols. Adapters implement them, and doubles in the tests."""
