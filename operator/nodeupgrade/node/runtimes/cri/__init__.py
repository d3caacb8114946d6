"""What runtimes that speak the CRI share."""
