"""How quick the inspector is with many wrappers, and how much it leaves in a notebook.

    python benchmarks/inspector.py [WRAPPERS [EVENTS]]

A headless Chromium loads the widget's module into a page of its own, with a model that hands messages to a real
`Inspector`, which is given made-up snapshots. Prints the median of some runs; paint is until the frame after the change
was drawn.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from ipy_dynwrap.events import CompileFinished, Event, Log, Place
from ipy_dynwrap.snapshot import CacheInfo, CellRun, EntryDetails, EntryInfo, GuardInfo, Listing, WrapperInfo
from ipy_dynwrap.views.feed import Feed
from ipy_dynwrap.views.widget import Inspector, Session

if TYPE_CHECKING:
    from playwright.sync_api import Page

_RUNS = 7
_FAMILIES_OF = 8

# The page's half of the model: what anywidget gives to `render`.
_PAGE = """
async ([script, style, traits]) => {
  const sheet = document.createElement("style");
  sheet.textContent = style;
  document.head.append(sheet);
  const heard = {};
  window.model = {
    get: (name) => traits[name],
    on: (event, callback) => { heard[event] = callback; },
    off: (event) => { delete heard[event]; },
    send: async (message) => { for (const each of await window.kernel(message)) window.receive(each); },
  };
  window.receive = (message) => heard["msg:custom"]?.(message);
  window.change = (state) => { traits.state = state; heard["change:state"]?.(); };
  window.painted = (act) => new Promise((done) => {
    const begun = performance.now();
    act();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)));
  });
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  window.widget = (await import(url)).default;
  window.render = () => window.painted(() => widget.render({ model, el: document.body }));
}
"""


def made_up(wrappers: int, cell: int = 200) -> CacheInfo:
    """Return a cache of families of eight wrappers, each with two entries; what `cell` compiled is new."""
    made = []
    for number in range(wrappers):
        family, member = divmod(number, _FAMILIES_OF)
        name = f"Block{family}"
        reason = f"x.shape[0] {number + 2} -> {number + 3}"
        entries = (
            EntryInfo("0/0", 30 + number, 0.1, None, cell - member, 2, 0.5, name, number=2 * number + 1),
            EntryInfo("0/1", 5, 0.01, reason, cell - member, 3, 0.25, name, number=2 * number + 2),
        )
        key = {"self.width": str(2**member), "self.mode": "'train'"} if member else {}
        made.append(
            WrapperInfo(
                f"{name}#{number:08x}",
                "module",
                f"{name}.forward",
                key,
                entries,
                40 + number,
                2,
                number % 5,
                8,
                "compiled" if number % 5 else "at limit",
                0.75,
                reason,
                recompiles=1,
                options="inductor",
                hits=38 + number,
                family=f"{name}#{family * _FAMILIES_OF:08x}",
            )
        )
    return CacheInfo(tuple(made), 2 * wrappers, wrappers, 3, 1, 0.75 * wrappers, 40 * wrappers, 38 * wrappers)


def records(number: int) -> tuple[Event, ...]:
    """Return `number` compilations, all for another reason."""
    return tuple(
        CompileFinished(
            f"Block{each % 100}#0",
            f"Block{each % 100}.forward",
            "forward",
            "0/1",
            (f"x.shape[0] {each + 2} -> {each + 3}",),
            Place(each // 10 + 1, 3, "cell"),
            0.25,
            "compiled",
        )
        for each in range(number)
    )


def entry(number: int) -> EntryDetails:
    """Return the details of an entry as a deep model has it: 1,000 guards, 3,000 lines of generated code."""
    guards = [
        GuardInfo(
            f"L['self']._modules['layers']._modules['{each // 5}'].weight",
            "TENSOR_MATCH",
            f"self.layers[{each // 5}].weight: float32 of shape (64, {each})",
            (f"check_tensor(L['self'].layers[{each}], Parameter)",),
            "cell 3, line 5: return self.layers(x)",
        )
        for each in range(1000)
    ]
    line = "    buf{0} = empty_strided_cpu((64, {0}), ({0}, 1), torch.float32)  # reuse\n"
    code = Listing("generated code", "python", "".join(line.format(each) for each in range(3000)))
    own = Listing(
        "your code", "python", "def forward(self, x):\n    print(x)\n    return x\n", 3, {4: "print breaks it"}
    )
    phases = (("tracing", 0.4), ("AOT", 0.3), ("inductor", 2.5))
    return EntryDetails(number, "0/0", tuple(guards), {"x": "float32[s0, 16] on cpu"}, (own, code), phases, "miss")


def runs(number: int) -> tuple[CellRun, ...]:
    """Return `number` runs of cells."""
    return tuple(
        CellRun(
            each + 1, 1.7e9 + 10 * each, 1 + each % 9, 0.5 * (each % 3), 0.3, 40, 38, each % 3, 1, compiled=("Net",)
        )
        for each in range(number)
    )


class Bench:
    """A page with the inspector, and the inspector behind it."""

    def __init__(self, page: Page, info: CacheInfo, events: tuple[Event, ...]) -> None:
        self.info = info
        self.page = page
        session = Session(lambda: self.info, lambda: events, lambda: runs(200), entry, print, print, lambda _: "")
        self.feed = Feed(Log())
        self.inspector = Inspector(session, self.feed)
        self._answers: list[dict[str, Any]] = []
        self.inspector.send = lambda message, buffers=None: self._answers.append(message)  # noqa: ARG005
        page.expose_function("kernel", self._kernel)

    def _kernel(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        self._answers.clear()
        self.inspector._answer(None, message, None)  # noqa: SLF001 - the other end of the wire
        return self._answers

    def load(self) -> None:
        """Load the module into a fresh page, and do not draw yet."""
        self.page.set_content("<!DOCTYPE html><title>inspector</title>")
        traits = {name: getattr(self.inspector, name) for name in ("state", "unkeyed", "actions")}
        script, style = self.inspector._esm, self.inspector._css  # noqa: SLF001 - as anywidget sends them
        self.page.evaluate(_PAGE, [str(script), str(style), traits])

    def all_rows(self) -> None:
        """Wait until the rows that the state left out have come."""
        self.page.wait_for_function("!document.querySelector('.dw-note').textContent.includes('kernel')")

    def paint(self, act: str) -> float:
        """Return how long a piece of script takes until it is painted, in seconds."""
        return float(self.page.evaluate(f"() => painted(() => {{ {act} }})")) / 1000

    def close(self) -> None:
        """End what the inspector started."""
        self.inspector.close()


def measure(bench: Bench) -> dict[str, float]:
    """Return the times, in seconds."""
    times: dict[str, list[float]] = {}

    def note(name: str, seconds: float) -> None:
        times.setdefault(name, []).append(seconds)

    for run in range(_RUNS):
        bench.load()
        note("first paint", float(bench.page.evaluate("() => window.render()")) / 1000)
        bench.all_rows()
        bench.info = replace(
            bench.info, wrappers=tuple(replace(each, calls=each.calls + run + 1) for each in bench.info.wrappers)
        )
        begun = time.perf_counter()
        bench.inspector._send_news()  # noqa: SLF001 - in this thread, and not the feed's
        note("kernel: look again", time.perf_counter() - begun)
        state = json.dumps(bench.inspector.state)
        note("update, all rows changed", bench.paint(f"change({state})"))
        answer = json.dumps({"op": "rows", **bench.inspector._rows.since(0)})  # noqa: SLF001
        note("rows that the state left out", bench.paint(f"receive({answer})"))
        note("sort by calls", bench.paint("document.querySelector('th.dw-calls button').click()"))
        note("sort by target", bench.paint("document.querySelector('th.dw-target button').click()"))
        bench.paint("document.querySelector('.dw-grouping input').click()")
        note("sort, ungrouped", bench.paint("document.querySelector('th.dw-hits button').click()"))
        note(
            "filter",
            bench.paint(
                "const f = document.querySelector('.dw-filter'); f.value = '2'; f.dispatchEvent(new Event('input'))"
            ),
        )
        bench.page.click(".dw-toggle")
        bench.page.click(".dw-opener")
        bench.page.wait_for_selector(".dw-guards")
        answer = json.dumps({"op": "entry", "number": 10**9})
        note("turn to 3,000 lines of code", bench.paint("document.querySelectorAll('.dw-entry [role=tab]')[3].click()"))
        bench.page.get_by_role("tab", name="Why").click()
        bench.page.wait_for_selector(".dw-item")
    return {name: statistics.median(values) for name, values in times.items()}


def main(wrappers: int, events: int) -> None:
    """Measure, and print the figures."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        bench = Bench(page, made_up(wrappers), records(events))
        print(f"{wrappers:,} wrappers, {events:,} events; median of {_RUNS} runs")
        for name, seconds in measure(bench).items():
            print(f"{name:30} {1e3 * seconds:7.1f} ms")
        saved = {"synced state": bench.inspector.get_state(), "output": bench.inspector._repr_mimebundle_()[0]}
        for name, value in saved.items():
            print(f"{name:30} {len(json.dumps(value, default=str, ensure_ascii=False).encode()) / 1000:7.1f} kB")
        bench.close()
        browser.close()
    if errors:
        sys.exit("\n".join(errors))


if __name__ == "__main__":
    main(*map(int, [*sys.argv[1:3], "1000", "10000"][:2]))
