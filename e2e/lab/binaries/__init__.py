"""The programs of a lab, of exact versions: found, fetched or built."""
