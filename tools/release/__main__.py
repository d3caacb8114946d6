"""Make a release in a directory, nothing of which is published.

    python -m tools.release --image registry.example/nodeupgrade --url https://… dist/

Every part is made or said to be skipped. With --strict, as in CI, a part that is skipped is an error.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from tools import generate_chart, wheels
from tools.release import image, manifests, plugin, sbom, signing
from tools.release.manifests import CHECKOUT, ImageName

WHEELS = CHECKOUT / "wheels"


class Report:
    """Tells what was made and what was skipped."""

    def __init__(self) -> None:
        self.skipped = 0

    def made(self, path: Path) -> None:
        """Say that a file was written."""
        print(f"made     {path.name} ({path.stat().st_size // 1024} KiB)", flush=True)

    def skip(self, what: str, why: str) -> None:
        """Say that something was not made."""
        self.skipped += 1
        print(f"SKIPPED  {what}: {why}", flush=True)


def chart(directory: Path, name: ImageName, source: str, report: Report) -> None:
    """Package the chart with the image of this release."""
    if shutil.which("helm") is None:
        report.skip("chart", "there is no helm on PATH")
        return
    with tempfile.TemporaryDirectory(prefix="nodeupgrade-chart-") as work:
        written = Path(work) / "nodeupgrade"
        generate_chart.write(written, image=name.repository, source=source)
        argv = ["helm", "package", f"--destination={directory}", str(written)]
        subprocess.run(argv, check=True, capture_output=True, timeout=120)
    report.made(directory / f"nodeupgrade-{generate_chart.version()}.tgz")


def image_archive(directory: Path, name: ImageName, options: argparse.Namespace, report: Report) -> ImageName:
    """Build the image for all platforms and return its name, with its digest."""
    if options.no_image:
        report.skip("image", "--no-image was given")
        return name
    archive = directory / f"nodeupgrade-{name.tag}-image.tar"
    digest = image.build(archive, tool=options.tool, name=str(name), platforms=options.platforms)
    report.made(archive)
    return ImageName(repository=name.repository, tag=name.tag, digest=digest)


def make(options: argparse.Namespace, report: Report) -> None:
    """Make everything, in the order of who needs what."""
    directory, version = options.directory, generate_chart.version()
    machines = [platform.rpartition("/")[2] for platform in options.platforms.split(",")]
    name = image_archive(directory, ImageName(repository=options.image, tag=version), options, report)
    for file, text in manifests.rendered(name):
        (directory / file).write_text(text, encoding="utf-8")
        report.made(directory / file)
    chart(directory, name, options.source, report)
    (own,) = WHEELS.glob("nodeupgrade-*.whl")
    bill = directory / f"nodeupgrade-{version}.cdx.json"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    locked = (WHEELS / wheels.DEPENDENCIES).glob("*.whl")
    bill.write_text(sbom.bill(locked, version=version, timestamp=now), encoding="utf-8")
    report.made(bill)
    archives = {machine: plugin.archive(directory, own, machine=machine) for machine in machines}
    for path in archives.values():
        report.made(path)
    krew = directory / "nodeupgrade.yaml"
    krew.write_text(plugin.manifest(archives, version=version, url=options.url), encoding="utf-8")
    report.made(krew)
    checksums = signing.write_checksums(directory)
    report.made(checksums)
    if options.no_signature:
        return
    if signature := signing.sign(checksums):
        report.made(directory / signature)
    else:
        report.skip("signature", f"{signing.KEY} is not set")


def main() -> int:
    """Make a release; 1 if something fails, or is skipped although everything was wanted."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__.partition("\n")[0])
    parser.add_argument("--image", required=True, help="name of the image, without a tag")
    parser.add_argument("--url", required=True, help="where the files of the release will be")
    parser.add_argument("--source", default="", help="where the files of this version can be read; alerts link there")
    parser.add_argument("--platforms", default="linux/amd64,linux/arm64")
    parser.add_argument("--tool", default="podman", help="docker (with buildx), podman or buildah")
    parser.add_argument("--no-image", action="store_true", help="build no image; install.yaml then names its tag")
    parser.add_argument("--no-signature", action="store_true", help="do not sign: that is done elsewhere")
    parser.add_argument("--strict", action="store_true", help="fail if something is skipped")
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    if options.directory.exists() and any(options.directory.iterdir()):
        parser.error(f"{options.directory} is not empty; what is in it would be signed, too")
    options.directory.mkdir(parents=True, exist_ok=True)
    options.directory = options.directory.resolve()
    report = Report()
    try:
        make(options, report)
    except subprocess.CalledProcessError as error:
        print(f"error: {' '.join(map(str, error.cmd))}: {error.stderr}", file=sys.stderr)
        return 1
    except (image.NoImageError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 1 if options.strict and report.skipped else 0


if __name__ == "__main__":
    sys.exit(main())
