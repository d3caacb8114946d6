"""Run specs against a lab, several at once."""

import re
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from e2e.conformance.outcomes import Outcome, read
from e2e.lab import Lab, LabError
from e2e.lab.process import run

_FOCUS = r"\[NodeConformance\]"
_SKIP = r"\[Slow\]|\[Serial\]|\[Disruptive\]|\[Feature:|should be able to pull image"
"""The last needs a registry outside, and tries for a quarter of an hour."""
_LIMIT_SECONDS = 7200.0


@dataclass(frozen=True, slots=True)
class Suite:
    """The specs of a release, for one lab."""

    lab: Lab
    program: Path

    def images(self) -> list[str]:
        """Return the names of all images that specs run."""
        return run(self.program, "--list-images", timeout=60).stdout.split()

    def names(self, only: str = "") -> list[str]:
        """Return the full texts of the specs of NodeConformance in which a regular expression is found."""
        with tempfile.TemporaryDirectory() as directory:
            report = Path(directory) / "report.json"
            self._run(report, "--ginkgo.dry-run", f"--ginkgo.focus={_FOCUS}", f"--ginkgo.skip={_SKIP}")
            return [name for name in read(report) if re.search(only, name)]

    def outcomes(self, names: Sequence[str], *, parallel: int) -> dict[str, Outcome]:
        """Run specs on the nodes that can be scheduled to, and return what became of them.

        Args:
            names: their full texts.
            parallel: how many at once.

        Raises:
            LabError: the program did not run.
        """
        parts = [part for first in range(parallel) if (part := names[first::parallel])]
        with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(max(1, len(parts))) as threads:
            reports = [Path(directory) / f"{number}.json" for number, _ in enumerate(parts)]
            found = threads.map(self._run_these, reports, parts)
            return {name: outcome for part in found for name, outcome in part.items()}

    def _run_these(self, report: Path, names: Sequence[str]) -> dict[str, Outcome]:
        self._run(report, f"--ginkgo.focus=^.*({'|'.join(map(re.escape, names))})$")
        return read(report, names)

    def _run(self, report: Path, *flags: str) -> None:
        always = (f"--kubeconfig={self.lab.kubeconfig}", f"--ginkgo.json-report={report}", "--ginkgo.no-color")
        limits = (f"--ginkgo.timeout={_LIMIT_SECONDS:.0f}s", "--provider=skeleton", "--dump-logs-on-failure=false")
        argv = self.lab.command(str(self.program), *always, *limits, *flags)
        ended = run(*argv, check=False, timeout=_LIMIT_SECONDS + 60)
        if not report.exists():
            raise LabError(f"the specs did not run: {(ended.stderr or ended.stdout)[-1000:]}")
