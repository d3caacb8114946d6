"""Packages of the host, as dpkg and rpm record them."""
