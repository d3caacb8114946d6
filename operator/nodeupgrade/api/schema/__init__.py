"""The schemas of our objects, said once.

The CustomResourceDefinitions are written from them, and objects are checked by them again in the control plane and by
``nodeupgrade lint``, since API servers before 1.25 enforce no rules.

``model`` and ``blocks`` are what schemas are made of; ``kinds`` puts them together; ``openapi`` writes them;
``settling``, ``checking``, ``changes`` and ``unknown`` work with objects.
"""
