"""What a release consists of."""

import hashlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.contract.install.test_chart import by_key, kustomized
from tools.documents import documents
from tools.release import image, manifests, plugin, sbom, signing
from tools.release.manifests import ImageName

PINNED = ImageName(repository="registry.example/nodeupgrade", tag="9.9.9", digest=f"sha256:{'b' * 64}")


def tool(directory: Path, name: str, script: str) -> None:
    """Put a program on PATH."""
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


@pytest.mark.parametrize("name", [PINNED, ImageName(repository="registry.example/nodeupgrade", tag="9.9.9")], ids=str)
def test_the_files_are_the_manifests_with_one_image(name: ImageName) -> None:
    files = dict(manifests.rendered(name))
    for file, folder in manifests.FILES.items():
        found, wanted = by_key(files[file]), kustomized(folder)
        text = json.dumps([*found.values()])
        assert json.loads(text.replace(str(name), "nodeupgrade:dev")) == [*wanted.values()]
        assert text.count(f'"{name}"') == 1, "agents get what the operator's pod says"
        assert "nodeupgrade:dev" not in files[file]
    (cleanup,) = documents(files["cleanup.yaml"])
    pod = cleanup["spec"]["template"]["spec"]
    assert {each["image"] for each in (*pod["initContainers"], *pod["containers"])} == {str(name)}


@pytest.mark.parametrize("base", ["manifests", "overlays/with-cleanup", "overlays/with-cluster-api"])
def test_an_image_that_an_overlay_of_ones_own_sets_is_the_only_one(tmp_path: Path, base: str) -> None:
    for name in manifests.FOLDERS:
        shutil.copytree(manifests.CHECKOUT / name, tmp_path / name)
    wanted = {"name": "nodeupgrade", "newName": "registry.example/op", "newTag": "0.1.0"}
    (tmp_path / "own").mkdir()
    (tmp_path / "own/kustomization.yaml").write_text(yaml.safe_dump({"resources": [f"../{base}"], "images": [wanted]}))

    text = json.dumps([*kustomized(str(tmp_path / "own")).values()])
    assert set(re.findall(r'"(nodeupgrade:\w+|registry\.example/.*?)"', text)) == {"registry.example/op:0.1.0"}


@pytest.mark.parametrize("digest", ["b" * 64, f"sha256:{'b' * 63}", "latest"])
def test_what_is_no_digest_is_refused_before_anything_is_written(
    digest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ["manifests", f"--image={PINNED.repository}", "--tag=9.9.9", f"--digest={digest}", str(tmp_path)]
    monkeypatch.setattr("sys.argv", argv)
    with pytest.raises(SystemExit) as ended:
        manifests.main()
    assert ended.value.code == 2
    assert list(tmp_path.iterdir()) == []


def wheel(directory: Path, name: str, version: str, tag: str, *lines: str) -> Path:
    path = directory / f"{name}-{version}-{tag}.whl"
    metadata = "\n".join(("Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *lines)) + "\n"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(f"{name}-{version}.dist-info/METADATA", metadata)
        packed.writestr(f"{name}/vendored.dist-info/METADATA", "Name: other")
    return path


def test_a_package_is_one_component_with_the_digest_of_every_wheel(tmp_path: Path) -> None:
    here = [wheel(tmp_path, "Some_Thing", "1.0", tag, "License-Expression: MIT") for tag in ("cp311-arm", "cp311-amd")]
    other = wheel(
        tmp_path, "other", "2", "py3-none-any", "License: BSD", "Classifier: License :: OSI Approved :: BSD License"
    )
    bare = wheel(tmp_path, "bare", "3", "py3-none-any")
    told = json.loads(sbom.bill([*here, other, bare], version="9", timestamp="2026-01-01T00:00:00Z"))
    components = {each["purl"]: each for each in told["components"]}
    assert components.keys() == {"pkg:pypi/some-thing@1.0", "pkg:pypi/other@2", "pkg:pypi/bare@3"}
    digests = {ref["hashes"][0]["content"] for ref in components["pkg:pypi/some-thing@1.0"]["externalReferences"]}
    assert digests == {hashlib.sha256(path.read_bytes()).hexdigest() for path in here}
    licences = [components[name]["licenses"] for name in sorted(components)]
    assert licences == [[], [{"license": {"name": "BSD License"}}], [{"expression": "MIT"}]]
    assert set(told["dependencies"][0]["dependsOn"]) == components.keys()


def test_checksums_cover_every_file_and_notice_a_change(tmp_path: Path) -> None:
    for name in ("a", "b.tar"):
        (tmp_path / name).write_text(name)
    checksums = signing.write_checksums(tmp_path)
    check = ["sha256sum", "--check", "--strict", checksums.name]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    assert {line.split()[1] for line in checksums.read_text().splitlines()} == {"a", "b.tar"}
    (tmp_path / "b.tar").write_text("changed")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 1


class TestSigning:
    """cosign is a stand-in: that the real one accepts these arguments was not tried."""

    @pytest.fixture
    def checksums(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
        monkeypatch.setenv(signing.KEY, "cosign.key")
        path = tmp_path / signing.CHECKSUMS
        path.write_text("")
        return path

    def test_without_a_key_nothing_is_signed(self, checksums: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(signing.KEY)
        checksums.with_name(f"{signing.CHECKSUMS}.sig").write_text("of an earlier release")
        assert signing.sign(checksums) == ""
        assert not checksums.with_name(f"{signing.CHECKSUMS}.sig").exists()

    def test_with_a_key_there_is_a_signature(self, checksums: Path) -> None:
        script = 'for a in "$@"; do case $a in --output-signature=*) echo "$@" > "${a#*=}";; esac; done'
        tool(checksums.parent / "bin", "cosign", script)
        signed = checksums.with_name(signing.sign(checksums)).read_text()
        assert shlex.split(signed)[:3] == ["sign-blob", "--yes", "--key=cosign.key"]
        assert signed.split()[-1] == str(checksums)

    @pytest.mark.parametrize("script", [None, "exit 1", "exit 0"], ids=["no cosign", "it fails", "it writes nothing"])
    def test_a_key_without_a_signature_is_an_error(self, checksums: Path, script: str | None) -> None:
        if script is not None:
            tool(checksums.parent / "bin", "cosign", script)
        with pytest.raises(RuntimeError):
            signing.sign(checksums)


class TestLauncher:
    @pytest.fixture
    def launch(self, tmp_path: Path) -> Path:
        tool(tmp_path, plugin.PROGRAM, plugin.launcher().partition("\n")[2])
        return tmp_path / plugin.PROGRAM

    def told(self, launch: Path, *words: str, **pythons: str) -> subprocess.CompletedProcess[str]:
        """Run it where there are these Pythons and nothing else that has their names."""
        programs = launch.parent / "bin"
        for name, script in {
            "dirname": 'exec /usr/bin/dirname "$@"',
            "readlink": 'exec /usr/bin/readlink "$@"',
        }.items():
            tool(programs, name, script)
        for name, script in pythons.items():
            tool(programs, name.replace("_", "."), script)
        argv, environment = ["/bin/sh", str(launch), *words], {"PATH": str(programs)}
        return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=600)

    def test_the_newest_python_that_runs_is_taken_and_a_shim_is_passed_over(self, launch: Path) -> None:
        telling = '[ "$1" = -c ] || { echo "$0" "$PYTHONPATH"; for a in "$@"; do echo "$a"; done; }'
        pythons = {"python3_11": telling, "python3_12": telling, "python3_13": "exit 127"}
        told = self.told(launch, "plan", "two words", **pythons).stdout.splitlines()
        assert told[0].split()[0].endswith("python3.12")
        assert told[0].split()[1] == f"{launch.parent}/lib/3.12:{launch.parent}/lib/any"
        assert told[-2:] == ["plan", "two words"]

    def test_it_runs_the_command_line_under_the_name_that_kubectl_gives_it(self, launch: Path) -> None:
        (launch.parent / "lib").mkdir()
        (launch.parent / "lib" / "any").symlink_to(manifests.CHECKOUT / "operator")
        told = self.told(launch, "status", "--help", python3_12=f'exec {sys.executable} "$@"')
        assert told.stdout.startswith("Usage: kubectl nodeupgrade status "), told.stderr

    def test_without_a_python_it_says_what_it_needs(self, launch: Path) -> None:
        done = self.told(launch)
        assert (done.returncode, done.stdout) == (1, "")
        assert "Python 3.11 to 3.14" in done.stderr


def test_the_digest_of_an_archive_is_that_of_its_index(tmp_path: Path) -> None:
    content = json.dumps({"schemaVersion": 2, "manifests": [{"digest": PINNED.digest}]}).encode()
    with tarfile.open(tmp_path / "image.tar", "w") as packed:
        entry = tarfile.TarInfo("./index.json")
        entry.size = len(content)
        packed.addfile(entry, io.BytesIO(content))
    assert image.index_digest(tmp_path / "image.tar") == PINNED.digest


def test_krew_is_told_what_is_in_the_archives(tmp_path: Path) -> None:
    archives = {machine: tmp_path / f"{machine}.tar.gz" for machine in plugin.MACHINES}
    for machine, path in archives.items():
        path.write_text(machine)
    body = yaml.safe_load(plugin.manifest(archives, version="9.9.9", url="https://example.com/v9.9.9"))
    platforms = {each["selector"]["matchLabels"]["arch"]: each for each in body["spec"]["platforms"]}
    assert body["spec"]["version"] == "v9.9.9"
    for machine, path in archives.items():
        assert platforms[machine]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert platforms[machine]["uri"] == f"https://example.com/v9.9.9/{path.name}"
        assert platforms[machine]["bin"] == plugin.PROGRAM


@pytest.mark.real
@pytest.mark.timeout(1200)
def test_an_image_for_two_platforms_is_one_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an image in which nothing is run: what the operator's own needs for a foreign platform is emulation."""
    if shutil.which("buildah") is None:
        pytest.skip("there is no buildah")
    storage = f'[storage]\ndriver="vfs"\ngraphroot="{tmp_path}/storage"\nrunroot="{tmp_path}/run"\n'
    (tmp_path / "storage.conf").write_text(storage)
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(tmp_path / "storage.conf"))
    monkeypatch.setenv("BUILDAH_ISOLATION", "chroot")
    source = tmp_path / "source"
    source.mkdir()
    (source / "Containerfile").write_text("ARG BASE=missing\nFROM ${BASE}\nCOPY kubelet /kubelet\n")
    (source / "kubelet").write_text("a program")
    monkeypatch.setenv("BASE", "scratch")
    monkeypatch.setattr(image, "CHECKOUT", source)

    archive = tmp_path / "image.tar"
    digest = image.build(archive, tool="buildah", name="made.test/nodeupgrade:1", platforms="linux/amd64,linux/arm64")

    with tarfile.open(archive) as packed:
        content = packed.extractfile(f"blobs/sha256/{digest.removeprefix('sha256:')}")
        assert content is not None
        index = content.read()
    assert f"sha256:{hashlib.sha256(index).hexdigest()}" == digest
    platforms = {each["platform"]["architecture"] for each in json.loads(index)["manifests"]}
    assert platforms == {"amd64", "arm64"}
    assert image.build(archive, tool="buildah", name="made.test/nodeupgrade:1", platforms="linux/amd64"), "again"
