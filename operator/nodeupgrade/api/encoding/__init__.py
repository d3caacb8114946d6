"""The formats that API objects and files on a node are read from and written in: JSON and YAML."""
