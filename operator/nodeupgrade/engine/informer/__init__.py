"""Informers: caches of the objects of one kind, kept up to date by list and watch."""
