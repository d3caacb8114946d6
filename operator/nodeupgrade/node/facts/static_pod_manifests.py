"""The manifests of static pods, as a kubelet finds them: regular files and symbolic links, except hidden ones."""

from pathlib import PurePosixPath

from nodeupgrade.kubelet.layout import KubeletLayout
from nodeupgrade.node.host.files.files import EntryKind, FilesView


def read_manifests(files: FilesView, layout: KubeletLayout) -> dict[str, bytes]:
    """Return the contents of the manifests by path; a symbolic link counts as its target."""
    found = {str(path): files.read(path) for path in manifest_paths(files, layout)}
    return {path: data for path, data in found.items() if data is not None}


def manifest_paths(files: FilesView, layout: KubeletLayout) -> tuple[PurePosixPath, ...]:
    """Return the paths of the manifests, sorted. Two names of one file remain two, since they are two pods."""
    if layout.manifests is None:
        return ()
    directory = PurePosixPath(layout.manifests)
    here = [path for path in files.walk(directory, deep=False) if not path.name.startswith(".")]
    links = [path for path in here if (entry := files.entry(path)) is not None and entry.kind is EntryKind.LINK]
    found = {path for path in here if path not in links}
    for link in links:
        if (real := files.real(link)) is not None:
            found.add(link if real in found else real)
    return tuple(sorted(found))
