"""The objects of the API: their fields, how they are read, checked and written, and the reasons they report."""
