"""Client for the Kubernetes API: raw JSON over the official client's transport."""
