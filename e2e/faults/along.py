"""Files, and the hold on a package, that go along with the kubelet in a run with a fault."""

from collections.abc import Iterator

from e2e import packages
from e2e.faults import files
from e2e.faults.run import FaultRun, Harm


def carrying(harm: Harm) -> Harm:
    """Let the NodeUpgrade of a fault bring the kubelet's configuration and a drop-in, each with another content."""

    def with_files(run: FaultRun) -> Iterator[None]:
        run.files = files.files(run.cluster, run.name)
        run.files_before = {file["path"]: files.state(run.cluster.node, file["path"]) for file in run.files}
        yield from harm(run)

    return with_files


def owning(harm: Harm) -> Harm:
    """Let the kubelet of a fault belong to a package that the run is to hold."""

    def with_package(run: FaultRun) -> Iterator[None]:
        packages.install(run.cluster.node)
        run.packaged = True
        try:
            yield from harm(run)
        finally:
            packages.remove(run.cluster.node)

    return with_package


def wrong(run: FaultRun) -> Iterator[str]:
    """Tell what besides the kubelet is neither as it must be with the new one, nor as before with the old one."""
    yield from _wrong_files(run)
    yield from _wrong_hold(run)


def _wrong_files(run: FaultRun) -> Iterator[str]:
    """Tell which files are neither the new ones with the new kubelet, nor exactly the old ones with the old one."""
    for file in run.files:
        new = run.version_after == run.new
        wanted = files.FileState(file["sha256"], 0, 0, files.MODE) if new else run.files_before[file["path"]]
        if (found := files.state(run.cluster.node, file["path"])) != wanted:
            yield f"{file['path']} is {found} with kubelet {run.version_after}, not {wanted}"


def _wrong_hold(run: FaultRun) -> Iterator[str]:
    """Tell whether the package is not held with the new kubelet, or not as before with the old one."""
    wanted = "hold" if run.version_after == run.new else "install"
    if run.packaged and (found := packages.selection(run.cluster.node)) != wanted:
        yield f"dpkg says {found} with kubelet {run.version_after}, not {wanted}"
