"""Schemas of the API objects, derived from the dataclasses that declare each field (``api.field``).

The CustomResourceDefinitions are generated from these schemas. The control plane and ``nodeupgrade lint`` validate
objects against them again, since API servers before 1.25 enforce no rules.
"""
