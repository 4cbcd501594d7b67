"""A real JupyterLab and Notebook, without network and without anybody's configuration, driven in a headless Chromium.

One server has both front ends: a notebook has an address in each.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import nbformat
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMIUM_ARGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
STARTS_WITHIN_SECONDS = 120
WAIT_MS = 30_000
CONNECTED = """() => fetch("/api/kernels").then((answer) => answer.json()).then((kernels) =>
    kernels.some((kernel) => kernel.connections > 0 && kernel.execution_state === "idle"))"""


class Lab:
    """A running server of JupyterLab and of Notebook 7."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.address = f"127.0.0.1:{port}"

    def write(self, name: str, cells: list[str]) -> str:
        """Write a notebook of code cells; return its address."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.folder / name)
        return f"http://{self.address}/lab/tree/{name}?reset"

    def write_for(self, front_end: str, name: str, cells: list[str]) -> str:
        """Write a notebook; return its address in ``"lab"`` or in ``"notebook"``."""
        url = self.write(name, cells)
        return url if front_end == "lab" else f"http://{self.address}/notebooks/{name}"

    def end_kernels(self) -> None:
        """End every kernel: a notebook of the same name would get the last one's."""
        connection = http.client.HTTPConnection(self.address)
        connection.request("GET", "/api/sessions")
        for session in json.load(connection.getresponse()):
            connection.request("DELETE", f"/api/sessions/{session['id']}")
            connection.getresponse().read()
        connection.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home = tmp_path_factory.mktemp("lab-home")
    folder = tmp_path_factory.mktemp("notebooks")
    notifications = home / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    notifications.parent.mkdir(parents=True)
    notifications.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    # All cells stay in the page, wherever it is scrolled to.
    tracker = home / "settings" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    tracker.parent.mkdir(parents=True)
    tracker.write_text('{"windowingMode": "none"}')
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ours = {"HOME": home, "IPYTHONDIR": home / "ipython", "JUPYTERLAB_SETTINGS_DIR": home / "settings"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "XDG_"))}
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"),
            *(
                "--ServerApp.port_retries=0",
                "--ServerApp.disable_check_xsrf=True",
                "--IdentityProvider.token=",
                "--ServerApp.password=",
            ),
            *("--LabApp.extension_manager=readonly", f"--ServerApp.root_dir={folder}"),
            # Found in a configuration otherwise.
            "--ServerApp.jpserver_extensions=notebook=True",
        ],
        env=kept | {name: str(path) for name, path in ours.items()} | {"JUPYTER_NO_CONFIG": "1"},
        stdout=(log := (home / "lab.log").open("w")),
        stderr=subprocess.STDOUT,
        # A group of its own, so that its kernels end with it.
        start_new_session=True,
    )
    try:
        _wait_for(port, server, home / "lab.log")
        yield Lab(folder, port)
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        log.close()


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


# For a module: while playwright is open, an event loop runs on this thread, and the tests of other folders need one.
@pytest.fixture(scope="module")
def chromium() -> Iterator[sync_api.Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGS)
        yield browser
        browser.close()


class Notebook:
    """A notebook open in a front end."""

    def __init__(self, page: sync_api.Page) -> None:
        self.page = page
        self.errors: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._note)

    def _note(self, message: sync_api.ConsoleMessage) -> None:
        # JupyterLab asks for a language server whether there is one or not.
        if message.type == "error" and "/lsp/" not in message.location["url"]:
            self.errors.append(f"{message.text} {message.location}")

    def open(self, url: str) -> None:
        """Open it, and wait for its kernel."""
        self.page.goto(url)
        self.page.wait_for_selector(".jp-Notebook .cm-content")
        # The indicator in the toolbar says idle before there is a kernel, and Notebook has no status bar.
        self.page.wait_for_function(CONNECTED)
        if "/lab/" in url:
            self.page.wait_for_selector(".jp-StatusBar-Widget :text('| Idle')")
        # What a front end says of itself while it starts.
        self.errors.clear()

    def cell(self, index: int) -> sync_api.Locator:
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(index)

    def start(self, index: int) -> None:
        """Run a cell without waiting for it."""
        prompt = self.cell(index).locator(".jp-InputPrompt")
        before = prompt.inner_text().strip()
        for _ in range(10):
            self.cell(index).locator(".cm-content").click()
            self.page.keyboard.press("Control+Enter")
            # A front end that has just been opened may drop it; otherwise the prompt changes at once.
            with contextlib.suppress(AssertionError):
                sync_api.expect(prompt).not_to_have_text(before, timeout=3000)
                return
        pytest.fail(f"cell {index} does not run")

    def run(self, index: int) -> None:
        """Run a cell to its end."""
        self.start(index)
        self.wait(index)

    def wait(self, index: int) -> None:
        """Wait for the end of a cell that was started."""
        # A running cell has a star for its number.
        sync_api.expect(self.cell(index).locator(".jp-InputPrompt")).to_have_text(
            re.compile(r"\[\d+\]:"), timeout=WAIT_MS
        )

    def output(self, index: int) -> str:
        return str(self.cell(index).locator(".jp-OutputArea").inner_text())


@pytest.fixture
def notebook(lab: Lab, chromium: sync_api.Browser) -> Iterator[Notebook]:
    context = chromium.new_context(viewport={"width": 1400, "height": 1100}, device_scale_factor=1.5)
    yield Notebook(context.new_page())
    context.close()
    lab.end_kernels()
