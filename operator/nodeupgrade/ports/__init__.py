"""The engine's interfaces to the outside world, as Protocols; implemented in adapters, and for tests in tests/doubles."""
