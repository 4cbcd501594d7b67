"""Install a wheel into an environment of its own, and import it there.

    python tools/try_wheel.py DIST

The wheel's dependencies are those of the environment that runs this file: what is tried is the wheel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
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


def main(dist: Path) -> None:
    """Try the one wheel in the folder `dist`; raises when anything fails."""
    (wheel,) = dist.glob("*.whl")
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
