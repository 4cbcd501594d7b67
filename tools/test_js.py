"""Lint and test the widget's browser part with ESLint and Vitest, installed from package-lock.json where need be.

Where there is no Node, or no registry can be reached, one line says so: the package itself needs neither.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "package-lock.json"
INSTALLED = ROOT / "node_modules" / ".package-lock.json"
# What npm says where the network or the registry is at fault, and not the project.
UNREACHABLE = re.compile(
    r"npm error code (E401|E403|E407|E5\d\d|EAI_AGAIN|ECONN\w+|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|ERR_SOCKET_TIMEOUT"
    r"|ETIMEDOUT|FETCH_ERROR)"
)
LEFT_OUT = "The JavaScript tests are left out:"


def install(npm: str) -> str | None:
    """Install what package-lock.json names.

    Returns
    -------
    str or None
        Why that is not possible here, None if it is done.

    Raises
    ------
    subprocess.CalledProcessError
        If npm fails for another reason than the network.
    """
    if INSTALLED.exists() and INSTALLED.stat().st_mtime >= LOCK.stat().st_mtime:
        return None
    command = [npm, "ci", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=60000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    if found := UNREACHABLE.search(done.stderr):
        return f"npm reaches no registry ({found[1]})"
    sys.stderr.write(done.stderr)
    raise subprocess.CalledProcessError(done.returncode, command)


def main() -> int:
    """Return the exit status."""
    npm = shutil.which("npm")
    reason = install(npm) if npm else "there is no npm"
    if npm is None or reason:
        print(LEFT_OUT, reason)
        return 0
    for script in ("lint", "test"):
        if status := subprocess.run([npm, "run", "--silent", script], cwd=ROOT, check=False).returncode:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
