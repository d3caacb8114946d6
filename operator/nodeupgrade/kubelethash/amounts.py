"""The number that a resource quantity stands for."""

from fractions import Fraction

from . import quantity
from .errors import Misfit


def resource_amount(text: str) -> Fraction:
    """Read a resource.Quantity such as ``1.5Gi`` or ``250m``.

    Raises:
        ValueError: it is not one.
    """
    try:
        return quantity.parse(text.strip()).amount()
    except Misfit as error:
        raise ValueError(str(error)) from error
