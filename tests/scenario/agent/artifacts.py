"""The Artifacts port of a simulated node: sources are on its disk; targets there, or in the agent's pod."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePath, PurePosixPath

from nodeupgrade.api.values import Digest
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.host.files.opening import CopyError
from nodeupgrade.sources.download_addresses import AddressPolicy
from tests.doubles.node.simulated import SimulatedNode


@dataclass(frozen=True)
class SimulatedArtifacts:
    """Implements node.artifacts.artifacts.Artifacts."""

    node: SimulatedNode
    settings: AgentSettings

    def download(self, url: str, target: PurePath, expected: Digest, reach: AddressPolicy) -> None:
        raise AssertionError(f"nothing is downloaded here: {url} to {target}, {expected}, {reach}")

    def real(self, source: PurePosixPath) -> PurePosixPath:
        return source

    def copy(self, source: PurePosixPath, target: PurePath) -> Digest:
        content = self._content(source)
        if target == self.settings.copied:
            self.settings.copied.write_bytes(content)
            self.node.disk[str(self.settings.in_pod(self.settings.copied))] = content
        else:
            self.node.files.copy(source, PurePosixPath("/") / target.relative_to(self.settings.host))
        return Digest(sha256(content).hexdigest())

    def read(self, source: PurePosixPath, limit: int) -> bytes:
        return self._content(source)[:limit]

    def _content(self, source: PurePosixPath) -> bytes:
        if (content := self.node.disk.get(str(source))) is None:
            raise CopyError(f"cannot copy {source} because it does not exist; check the path")
        return content
