"""A part of /proc/PID/stat."""

TAIL = "S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 176946 1000 10"
