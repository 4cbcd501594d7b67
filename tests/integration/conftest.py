"""A real IPython shell and a real kernel, each with a check that a test leaves nothing of the extension behind."""

from __future__ import annotations

import atexit
import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.manager import KernelManager
from traitlets.config import Config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from IPython.core.interactiveshell import ExecutionResult
    from jupyter_client.blocking import BlockingKernelClient


@pytest.fixture(autouse=True)
def no_listener_leaks() -> Iterator[None]:
    """Fail the test that leaves a subscriber of the log or a function for places; `clean_slate` sees to the rest."""
    pytest.importorskip("torch")
    from ipy_dynwrap import state

    before = list(state.places), len(state.log._subscribers)
    yield
    assert (state.places, len(state.log._subscribers)) == before


def state_of_shell(shell: InteractiveShell) -> dict[str, Any]:
    """What the extension puts into a shell."""
    return {
        "input transforms": list(shell.input_transformers_cleanup),
        "line transforms": list(shell.input_transformer_manager.line_transforms),
        "later input transforms": list(shell.input_transformers_post),
        "AST transforms": list(shell.ast_transformers),
        "line magics": dict(shell.magics_manager.magics["line"]),
        "cell magics": dict(shell.magics_manager.magics["cell"]),
        "instances of Magics": dict(shell.magics_manager.registry),
        "compiler": type(shell.compile),
        "runner of scripts": vars(shell).get("safe_execfile"),
        "configurables": list(shell.configurables),
        "completion": list(shell.Completer.custom_matchers),
        "formatters": {
            mime: [set(each.type_printers), set(each.deferred_printers)]
            for mime, each in shell.display_formatter.formatters.items()
        },
        "events": {name: list(functions) for name, functions in shell.events.callbacks.items()},
    }


@dataclass
class Shell:
    """A shell with the extension, and what its cells printed."""

    ip: InteractiveShell
    capture: pytest.CaptureFixture[str]

    def __call__(self, cell: str, **options: Any) -> ExecutionResult:
        """Run a cell as a user does; its output is in `text` then."""
        self.capture.readouterr()
        result = self.ip.run_cell(cell, store_history=True, **options)
        out, err = self.capture.readouterr()
        self.text = out + err
        return result

    @property
    def names(self) -> set[str]:
        """The user's own names."""
        return {name for name in self.ip.user_ns if not name.startswith("_")} - set(self.ip.user_ns_hidden)


_shells: list[InteractiveShell] = []


def pytest_unconfigure() -> None:
    """Let no shell clean up at the end: each collects all garbage, which would take minutes together."""
    for ip in _shells:
        atexit.unregister(ip.atexit_operations)


@contextlib.contextmanager
def plain_shell(**traits: Any) -> Iterator[InteractiveShell]:
    """A shell of one's own, in the place of the process's one."""
    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    ip = InteractiveShell.instance(config=config, **traits)
    _shells.append(ip)
    try:
        yield ip
    finally:
        ip.restore_sys_module_state()
        InteractiveShell.clear_instance()


@pytest.fixture
def ip() -> Iterator[InteractiveShell]:
    """A shell without the extension."""
    with plain_shell() as ip:
        # IPython 9.18 and later make most magics at their first use, which would look like a leak.
        getattr(ip.magics_manager, "load_all_lazy_magics", bool)()
        yield ip


@pytest.fixture
def shell(ip: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """A shell with the extension; the test fails if unloading leaves a trace."""
    before = state_of_shell(ip)
    ip.run_line_magic("load_ext", "ipy_dynwrap")
    # The fastest backend that compiles; cells that want another say so.
    ip.run_line_magic("config", "DynWrap.backend = 'eager'")
    yield Shell(ip, capsys)
    ip.run_line_magic("unload_ext", "ipy_dynwrap")
    assert state_of_shell(ip) == before


@dataclass
class Answer:
    """What a kernel sent for one cell."""

    reply: dict[str, Any]
    messages: list[dict[str, Any]]

    @property
    def text(self) -> str:
        """Everything that a user reads, without colours."""
        texts = []
        for message in self.messages:
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    texts.append(content["text"])
                case "error":
                    texts += [f"{line}\n" for line in content["traceback"]]
                case "execute_result" | "display_data":
                    texts.append(content["data"].get("text/plain", "") + "\n")
        # A stream's text comes in pieces that end anywhere.
        return re.sub(r"\x1b\[[0-9;]*m", "", "".join(texts))

    @property
    def result(self) -> str | None:
        """The ``Out`` of the cell."""
        for message in self.messages:
            if message["msg_type"] == "execute_result":
                return message["content"]["data"]["text/plain"]
        return None


@dataclass
class Kernel:
    """A kernel with the extension."""

    manager: KernelManager
    client: BlockingKernelClient

    def __call__(self, cell: str, *, interrupt_at: str | None = None, **options: Any) -> Answer:
        """Run a cell; interrupt it when it has printed `interrupt_at`."""
        messages: list[dict[str, Any]] = []

        def hook(message: dict[str, Any]) -> None:
            messages.append(message)
            if interrupt_at is not None and interrupt_at in message["content"].get("text", ""):
                self.manager.interrupt_kernel()

        reply = self.client.execute_interactive(cell, timeout=120, output_hook=hook, **options)
        return Answer(reply["content"], messages)


@pytest.fixture(scope="module")
def start_kernel() -> Iterator[Callable[[], Kernel]]:
    with contextlib.ExitStack() as stack:

        def start() -> Kernel:
            manager = KernelManager(kernel_name="python3")
            manager.start_kernel()
            stack.callback(manager.shutdown_kernel, now=True)
            client = manager.client()
            client.start_channels()
            stack.callback(client.stop_channels)
            client.wait_for_ready(timeout=60)
            return Kernel(manager, client)

        yield start


SETUP = """
%load_ext ipy_dynwrap
%config DynWrap.backend = 'eager'
import asyncio, time
import torch

net = torch.nn.Linear(3, 3)
x = torch.ones(2, 3)
"""

STATE = """
from ipy_dynwrap import _native, regions
print('installed', _native.installed(), 'open', regions.any_open(), regions.current())
"""


NOTHING_OPEN = "installed False open False None\n"


@pytest.fixture(scope="module")
def one_kernel(start_kernel: Callable[[], Kernel]) -> Kernel:
    kernel = start_kernel()
    assert kernel(SETUP).reply["status"] == "ok"
    return kernel


@pytest.fixture
def kernel(one_kernel: Kernel) -> Iterator[Kernel]:
    """A kernel with the extension, `net` and `x`; the test fails if a region is open after it."""
    yield one_kernel
    assert one_kernel(STATE).text == NOTHING_OPEN
