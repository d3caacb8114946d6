"""Provides the package that installs the kubelet."""

from pathlib import PurePosixPath

from nodeupgrade.node.host.packages.dpkg_database import Package

USUAL = PurePosixPath("/usr/bin/kubelet")


KUBELET = Package(manager="dpkg", name="kubelet", version="1.30.14-1.1", architecture="amd64")
