"""Skips what needs a program that is not there and cannot be had, unless everything is required."""

import os
from collections.abc import Callable

import pytest

from e2e.lab.errors import LabError


def have(program: Callable[[], str]) -> str:
    """Return a program, or skip the test where there is none and none is required."""
    try:
        return program()
    except LabError as error:
        if os.environ.get("NODEUPGRADE_E2E") == "required":
            raise
        pytest.skip(str(error))
