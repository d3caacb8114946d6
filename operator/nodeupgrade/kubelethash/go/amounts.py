"""Converts resource quantities to numbers."""

from fractions import Fraction

from ..errors import Misfit
from . import quantity


def resource_amount(text: str) -> Fraction:
    """Return the exact number that a resource.Quantity such as ``1.5Gi`` or ``250m`` stands for.

    Raises:
        ValueError: the text is not a quantity.
    """
    try:
        return quantity.parse(text.strip()).amount()
    except Misfit as error:
        raise ValueError(str(error)) from error
