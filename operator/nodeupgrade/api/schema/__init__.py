"""The schemas of our objects, derived from the dataclasses that declare each field (``api.field``).

The CustomResourceDefinitions are written from them, and objects are checked by them again in the control plane and by
``nodeupgrade lint``, since API servers before 1.25 enforce no rules.

``derive`` makes schemas of dataclasses and ``model`` is what they are made of; ``openapi`` writes them; ``defaulting``,
``validation``, ``changes`` and ``unknown`` work with objects.
"""
