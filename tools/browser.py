"""Find Chromium for the browser tests: install Debian's where that is possible, otherwise say what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """Return the path of a Chromium that is on the PATH; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def install() -> None:
    """Install Debian's package, quietly; raises `subprocess.CalledProcessError` when apt-get fails."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        subprocess.run(["apt-get", "-qq", *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)


def main() -> str | None:
    """Return None when Chromium is there, otherwise one sentence for the user."""
    if find() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        print("Installing Chromium", flush=True)
        try:
            install()
        except subprocess.CalledProcessError as error:
            print(error, file=sys.stderr)
    if find() is None:
        return "The browser tests need Chromium: install it (Debian: apt-get install chromium), or say BROWSER=no."
    return None


if __name__ == "__main__":
    sys.exit(main())
