"""Where the control plane's programs come from, what happens without them, and that they die with whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.controlplane.binaries import PACKAGES, ControlPlaneUnavailable, cache_folder, find_or_build

ROOT = Path(__file__).parents[2]
FAKE_GO = """#!/bin/sh
echo "$@" >> "{log}"
while [ "$1" != -o ]; do shift; done
mkdir -p "$(dirname "$2")"
printf '#!/bin/sh\\n' > "$2"
chmod +x "$2"
"""
BROKEN_GO = """#!/bin/sh
echo 'go: downloading example.com/module v1.0.0' >&2
echo 'example.com/module: cannot be had' >&2
exit 1
"""
OWNER = """
import sys
from pathlib import Path
from support.controlplane.processes import Guardian, Launch, Process
folder = Path(sys.argv[1])
guardian = Guardian(folder)
process = Process(Launch("program", ["sleep", "600"], folder / "program.log", guardian.group, {"PATH": "/usr/bin:/bin"}))
print(guardian.group, process.pid, flush=True)
sys.stdin.read()
"""


def quiet(line: str) -> None:
    pass


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def environment(tmp_path: Path, go: str = "") -> dict[str, str]:
    """Return a machine with an empty cache and this program as Go, or none."""
    if go:
        program(tmp_path / "tools" / "go", go.format(log=tmp_path / "log"))
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": f"{tmp_path / 'tools'}:/usr/bin:/bin" if go else ""}


def test_folder_of_envtest_is_taken_as_it_is(tmp_path: Path) -> None:
    for name in ("etcd", "kube-apiserver"):
        program(tmp_path / name)
    found = find_or_build({"KUBEBUILDER_ASSETS": str(tmp_path)}, quiet)
    assert found.kube_apiserver == tmp_path / "kube-apiserver"
    with pytest.raises(ControlPlaneUnavailable, match="has no kube-scheduler: unset KUBEBUILDER_ASSETS to build it"):
        _ = found.kube_scheduler


def test_folder_of_envtest_that_lacks_a_program_is_named(tmp_path: Path) -> None:
    program(tmp_path / "etcd")
    with pytest.raises(ControlPlaneUnavailable, match=f"^KUBEBUILDER_ASSETS={tmp_path} has no kube-apiserver$"):
        find_or_build({"KUBEBUILDER_ASSETS": str(tmp_path)}, quiet)


def test_without_programs_and_without_go_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ControlPlaneUnavailable, match="set KUBEBUILDER_ASSETS to their folder, or install Go to build them"):
        find_or_build(environment(tmp_path), quiet)


def test_built_programs_need_no_go_the_next_time(tmp_path: Path) -> None:
    built = find_or_build(environment(tmp_path, FAKE_GO), quiet)
    assert {path.name for path in built.folder.iterdir()} == set(PACKAGES)
    assert find_or_build({**environment(tmp_path), "PATH": ""}, quiet) == built
    commands = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert [command.rpartition(" ")[2] for command in commands] == list(PACKAGES.values())
    assert all("-X k8s.io/component-base/version.gitVersion=v1." in command for command in commands)


def test_two_processes_that_need_the_programs_build_once(tmp_path: Path) -> None:
    machine = environment(tmp_path, FAKE_GO)
    threads = [threading.Thread(target=find_or_build, args=(machine, quiet)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len((tmp_path / "log").read_text(encoding="utf-8").splitlines()) == len(PACKAGES)


def test_failed_build_shows_the_last_line_of_go_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    machine = environment(tmp_path, BROKEN_GO)
    with pytest.raises(ControlPlaneUnavailable, match=r"^go build go\.etcd\.io/etcd/server/v3 failed: example\.com/module: cannot be had$"):
        find_or_build(machine, quiet)
    assert {path.name for path in cache_folder(machine).parent.iterdir()} == {"lock"}


def test_unusable_cache_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    with pytest.raises(ControlPlaneUnavailable, match=f"^cannot build into {tmp_path}/cache/"):
        find_or_build(environment(tmp_path, FAKE_GO), quiet)


@pytest.mark.parametrize(
    ("ci", "code", "word"),
    [("", 0, "1 skipped"), ("true", 1, "CI must run the e2e tests, but there is no control plane: needs etcd and kube-apiserver")],
)
def test_tests_without_a_control_plane_are_skipped_but_fail_in_ci(tmp_path: Path, ci: str, code: int, word: str) -> None:
    one = "tests/e2e/test_control_plane.py::test_version_is_a_release_of_kubernetes"
    inherited = {name: value for name, value in os.environ.items() if name not in ("KUBEBUILDER_ASSETS", "PYTEST_ADDOPTS", "CI")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", one],
        check=False,
        cwd=ROOT,
        env={**inherited, **environment(tmp_path), **({"CI": ci} if ci else {})},
        capture_output=True,
        text=True,
    )
    assert word in done.stdout
    assert done.returncode == code
    assert ("no control plane: needs etcd and kube-apiserver: set KUBEBUILDER_ASSETS") in done.stdout


def test_programs_and_their_folder_are_gone_when_their_owner_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "plane"
    folder.mkdir()
    inherited = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=inherited, text=True
    ) as owner:
        assert owner.stdout is not None
        pids = [int(word) for word in owner.stdout.readline().split()]
        assert len(pids) == 2
        assert all(alive(pid) for pid in pids)
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while (any(alive(pid) for pid in pids) or folder.exists()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(alive(pid) for pid in pids)
    assert not folder.exists()


def alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended may wait for its parent to ask how."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
