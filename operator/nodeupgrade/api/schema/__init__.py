"""Schemas of the API objects, derived from the dataclasses that declare each field (``api.field``).

CustomResourceDefinitions are generated from them. The control plane and ``nodeupgrade lint`` validate objects against
them again, since API servers before 1.25 do not enforce rules.
"""
