"""What is installed where the suite of package managers runs, as dpkg has it on record."""

from nodeupgrade.node.host.packages.dpkg_database import Package

KUBELET = Package(manager="dpkg", name="kubelet", version="1.30.14-1.1", architecture="amd64")
INSTALLED = b"""\
Package: bash
Essential: yes
Status: install ok installed
Maintainer: Somebody <somebody@example.com>
Architecture: amd64
Version: 5.2
Description: a shell
 Package: kubelet

Package: kubelet
Status: install ok installed
Maintainer: Somebody <somebody@example.com>
Architecture: amd64
Version: 1.30.14-1.1
Description: Node agent

Package: kubelet-tools
Status: install ok installed
Maintainer: Somebody <somebody@example.com>
Architecture: all
Version: 1
Description: Tools for it
"""
