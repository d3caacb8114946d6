"""All layouts."""

from e2e.layouts import clouds, installers, kubeadm
from e2e.layouts.layout import Layout

LAYOUTS: tuple[Layout, ...] = (*kubeadm.LAYOUTS, *clouds.LAYOUTS, *installers.LAYOUTS)


def layout_named(name: str) -> Layout:
    """Return the layout of that name."""
    return next(layout for layout in LAYOUTS if layout.name == name)
