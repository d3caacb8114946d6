"""Steps that change what the runtime serves."""
