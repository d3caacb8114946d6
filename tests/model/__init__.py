"""A model checker for the fleet's real code: all orders of steps and events in small worlds."""
