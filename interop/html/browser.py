"""Finds a Chromium, or gets one."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

from harness import install

# What the machine may call it.
NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge"]
MAC_APPS = ["Chromium.app/Contents/MacOS/Chromium", "Google Chrome.app/Contents/MacOS/Google Chrome"]


def find(node, playwright, report):
    """The path of a Chromium that starts. `report(text)` is told when one has to be installed."""
    asked = os.environ.get("MILK_CHROMIUM")
    if asked:
        problem = why_not(asked)
        if problem:
            raise install.InstallError(f"MILK_CHROMIUM={asked} does not start: {problem}")
        return asked
    tried = []
    for way in (on_the_machine, lambda: from_apt(report), lambda: from_playwright(node, playwright, report)):
        try:
            path = way()
            problem = why_not(path)
            if not problem:
                return path
            tried.append(f"{path} does not start: {problem}")
        except install.InstallError as error:
            tried.append(str(error))
    raise install.InstallError(
        "there is no Chromium, and none could be installed; install one, or name it in MILK_CHROMIUM.\n  "
        + "\n  ".join(tried)
    )


def why_not(path):
    """What keeps a browser from starting; `None` if nothing does."""
    try:
        done = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else (done.stderr or done.stdout)[-500:].strip() or "it failed"


def on_the_machine():
    apps = [str(Path("/Applications") / app) for app in MAC_APPS] if platform.system() == "Darwin" else []
    for name in [*NAMES, *apps]:
        path = shutil.which(name)
        if path:
            return path
    raise install.InstallError("the machine has none")


def from_playwright(node, playwright, report):
    """The one that Playwright brings along; it comes from a server of its own, not from npm."""
    report("installing Playwright's Chromium")

    def fill(folder):
        environment = f"PLAYWRIGHT_BROWSERS_PATH={folder}"
        install.run(["env", environment, node, playwright / "cli.js", "install", "chromium-headless-shell"])

    folder = install.once("chromium-playwright", fill)
    found = [path for path in folder.rglob("*headless*shell*") if path.is_file() and os.access(path, os.X_OK)]
    if not found:
        raise install.InstallError(f"Playwright installed no Chromium in {folder}")
    return str(found[0])


def from_apt(report):
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise install.InstallError("apt-get is not there, or not allowed")
    report("installing the package chromium")
    install.run(["apt-get", "update", "-qq"])
    install.run(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq", "chromium"])
    return on_the_machine()
