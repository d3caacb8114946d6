"""The plan of a run, decided before anything is touched."""
