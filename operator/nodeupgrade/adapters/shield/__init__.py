"""The shield's sockets and its log. The executor imports this package, so nothing here is slow to import."""
