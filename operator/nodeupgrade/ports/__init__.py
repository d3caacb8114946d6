"""What the engine needs from the outside world, as Protocols. Implementations live in adapters and simulation."""
