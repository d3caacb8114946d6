"""The nodes of a lab: what they start from, how they boot, and what configures them."""
