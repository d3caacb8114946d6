"""Steps that change nothing, and end the run unless everything is as planned."""
