"""What a lab has of its host: cgroups, networks, a disk, and the programs that it needs there."""
