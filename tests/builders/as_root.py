"""A mark for tests that need root."""

import os

import pytest

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="changing the root directory needs root")
