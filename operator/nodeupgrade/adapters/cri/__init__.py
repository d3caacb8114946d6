"""Client for the Container Runtime Interface (CRI) over a unix socket."""
