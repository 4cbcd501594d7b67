"""Install a wheel into an environment of its own, and import it there; look whether an sdist holds what it should.

    python tools/try_wheel.py DIST

The wheel's dependencies are those of the environment that runs this file: what is tried is the wheel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
from pathlib import Path

TRY = """
import sys
import ipy_dynwrap
import ipy_dynwrap._native
assert "torch" not in sys.modules, "importing ipy_dynwrap imported torch"
print("ipy_dynwrap", ipy_dynwrap.__version__, "from", ipy_dynwrap.__path__[0])
"""


def look(sdist: Path) -> None:
    """Raise unless `sdist` holds what a build needs, and nothing that the repository does not hold."""
    with tarfile.open(sdist) as archive:
        held = {str(Path(*Path(member.name).parts[1:])) for member in archive if member.isfile()} - {"PKG-INFO"}
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True, text=True)
    tracked = set(listed.stdout.split("\0"))
    if alien := held - tracked:
        raise SystemExit(f"{sdist.name} holds {len(alien)} files that are not the repository's, {min(alien)} for one")
    if missing := {name for name in tracked if name.startswith(("ipy_dynwrap/", "csrc/", "tests/"))} - held:
        raise SystemExit(f"{sdist.name} misses {len(missing)} files, {min(missing)} for one")


def try_out(wheel: Path) -> None:
    """Install `wheel` and import it; raises when that fails."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "venv")
        venv.create(home, with_pip=True)
        python = home / "bin" / "python"
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--no-deps", wheel.resolve()], check=True)
        # An ordinary entry of PYTHONPATH comes without its .pth files, so an editable install there is not seen.
        environment = os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")}
        # -P: not from the checkout that this may be run in.
        subprocess.run([python, "-P", "-c", TRY], cwd=folder, env=environment, check=True)


def main(dist: Path) -> None:
    """Look at what lies in the folder `dist`: one wheel, and maybe the sdist that it was built from."""
    for sdist in dist.glob("*.tar.gz"):
        look(sdist)
    (wheel,) = dist.glob("*.whl")
    try_out(wheel)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
