/** The small parts: words, tabs, highlighting, listings, guards. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { ANSWER_MS, copy, duration, node, onEscape, waitIn } from "../../ipy_dynwrap/views/static/dom.js";
import { EntryPanel } from "../../ipy_dynwrap/views/static/entry.js";
import { GuardTree } from "../../ipy_dynwrap/views/static/guards.js";
import { highlight } from "../../ipy_dynwrap/views/static/highlight.js";
import { CodeListing } from "../../ipy_dynwrap/views/static/listing.js";
import { Tabs } from "../../ipy_dynwrap/views/static/tabs.js";
import { MARKUP, press, texts } from "./made_up.js";

beforeEach(() => vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  document.body.replaceChildren();
});

describe("words", () => {
  it.each([
    [0, "0 s"],
    [0.0000042, "4 µs"],
    [0.0031, "3.1 ms"],
    [0.048, "48 ms"],
    [0.9994, "999 ms"],
    [0.9996, "1.0 s"],
    [3.21, "3.2 s"],
    [9.96, "10 s"],
    [59.4, "59 s"],
    [59.6, "1 min 0 s"],
    [125, "2 min 5 s"],
  ])("writes %s seconds as the kernel does", (seconds, text) => expect(duration(seconds)).toBe(text));

  it("says when nobody answers, and not when somebody has", () => {
    const [silent, answered] = [node("div"), node("div")];
    waitIn(silent);
    waitIn(answered)();
    vi.advanceTimersByTime(ANSWER_MS);
    expect(silent.textContent).toContain("No answer");
    expect(answered.textContent).toContain("Asking");
  });

  it("leaves Escape to what is inside, and to a field with text", () => {
    const [input, close] = [node("input"), vi.fn()];
    const outer = node("div", {}, input);
    onEscape(outer, close);
    input.value = "text";
    press(input, "Escape");
    expect(close).not.toHaveBeenCalled();
    input.value = "";
    expect(press(input, "Escape").defaultPrevented).toBe(true);
    press(input, "Enter");
    expect(close).toHaveBeenCalledOnce();
  });

  it("copies, or says that it could not", async () => {
    const writeText = vi.fn();
    vi.stubGlobal("navigator", { clipboard: { writeText } });
    expect(await copy("text")).toBe(true);
    expect(writeText).toHaveBeenCalledWith("text");
    vi.stubGlobal("navigator", {});
    expect(await copy("text")).toBe(false);
    expect(document.querySelector("textarea")).toBeNull();
  });
});

describe("tabs", () => {
  const make = (shown) => new Tabs("Parts", ["a", "b", "c"].map((title) => ({ title, content: title })), shown);

  it("shows one page, and only its tab is in the tab order", () => {
    const tabs = make();
    tabs.choose(1);
    expect(tabs.panels.map((panel) => panel.hidden)).toEqual([true, false, true]);
    expect(tabs.tabs.map((tab) => tab.tabIndex)).toEqual([-1, 0, -1]);
    expect(tabs.tabs.map((tab) => tab.getAttribute("aria-selected"))).toEqual(["false", "true", "false"]);
    expect(tabs.panels[1].getAttribute("aria-labelledby")).toBe(tabs.tabs[1].id);
  });

  it("moves by arrows, Home and End, around the ends", () => {
    const shown = vi.fn();
    const tabs = make(shown);
    for (const key of ["ArrowLeft", "ArrowRight", "End", "Home", "ArrowRight", "x"]) press(tabs.list, key);
    expect(shown.mock.calls.flat()).toEqual([0, 2, 0, 2, 0, 1]);
  });
});

describe("highlighting", () => {
  const kinds = (text, language) => highlight(text, language).map((line) => line.filter(([kind]) => kind));

  it("loses no character", () => {
    for (const language of ["python", "cpp", "text"]) {
      const text = `def f(x): # "no string"\n  return '''a\nb''' + 1.5e3 /* c */ "open\n@d\n\n`;
      const lines = highlight(text, language).map((line) => line.map(([, piece]) => piece).join(""));
      expect(lines.join("\n")).toBe(text);
    }
  });

  it("knows Python", () => {
    expect(kinds('@wraps\ndef f(x): # "c"\n  return "a#b" + g(0x1f)', "python")).toEqual([
      [["mark", "@wraps"]],
      [["word", "def"], ["call", "f"], ["comment", '# "c"']],
      [["word", "return"], ["string", '"a#b"'], ["call", "g"], ["number", "0x1f"]],
    ]);
  });

  it("follows a string over lines", () => {
    expect(kinds('x = """a\nif b"""\nif c', "python")).toEqual([
      [["string", '"""a']],
      [["string", 'if b"""']],
      [["word", "if"]],
    ]);
  });

  it("does not try again from every place", () => {
    // Each of these takes minutes if it does.
    const hard = [`${"1".repeat(2e5)}x_`, '"\\'.repeat(1e5), '"""'.repeat(20001), "/*".repeat(1e5), `${" ".repeat(2e5)}x`];
    for (const language of ["python", "cpp"]) {
      for (const text of hard) expect(highlight(text, language)).toHaveLength(1);
    }
  });

  it("knows C++", () => {
    expect(kinds("#include <a>\nauto x = 1.0f; /* if\n if */ // y", "cpp")).toEqual([
      [["mark", "#include <a>"]],
      [["word", "auto"], ["number", "1.0f"], ["comment", "/* if"]],
      [["comment", " if */"], ["comment", "// y"]],
    ]);
  });
});

describe("a listing", () => {
  const listing = (changes) =>
    new CodeListing({ title: "your code", language: "python", text: "a\nb\nc\n", first: 3, marks: { 4: "why" }, ...changes });

  it("numbers its lines from where they stand, and marks them", () => {
    const { element } = listing({});
    expect(texts(element, ".dw-line-number")).toEqual(["3", "4", "5"]);
    expect(texts(element, ".dw-marked code")).toEqual(["b"]);
    expect(texts(element, ".dw-mark-note")).toEqual(["why"]);
  });

  it("shows a long text in parts, and copies all of it", async () => {
    const writeText = vi.fn();
    vi.stubGlobal("navigator", { clipboard: { writeText } });
    const text = "x\n".repeat(600);
    const { element, more } = listing({ text });
    expect(element.querySelectorAll(".dw-line")).toHaveLength(250);
    expect(more.textContent).toBe("Show 250 more of 350 lines");
    more.click();
    more.click();
    expect(element.querySelectorAll(".dw-line")).toHaveLength(600);
    expect(more.hidden).toBe(true);
    element.querySelector("button").click();
    await vi.runAllTimersAsync();
    expect(writeText).toHaveBeenCalledWith(text);
    expect(texts(element, ".dw-said")).toEqual(["Copied."]);
  });

  it("takes markup for text", () => {
    const { element } = listing({ text: MARKUP, marks: { 3: MARKUP }, title: MARKUP });
    expect(element.querySelector("img")).toBeNull();
    expect(texts(element, "code")).toEqual([MARKUP]);
  });
});

function guard(number, changes = {}) {
  return { source: `L['x${number}']`, kind: "TYPE_MATCH", words: `x${number} is an int`, code: ["check"], place: "cell 1", ...changes };
}

describe("guards", () => {
  const branch = (name, guards, children = []) => ({ name, guards, children });

  it("are a tree that is drawn as it unfolds", () => {
    const many = Array.from({ length: 50 }, (_, number) => branch(`[${number}]`, [guard(number)]));
    const { element } = new GuardTree([branch("self", [], many), branch("x", [guard(99)])]);
    const [self, x] = element.querySelectorAll(".dw-tree > details");
    expect(self.open).toBe(false);
    expect(self.querySelectorAll(".dw-guard")).toHaveLength(0);
    expect(self.querySelector("summary").textContent).toBe("self 50");
    self.open = true;
    self.dispatchEvent(new Event("toggle"));
    expect(self.querySelectorAll(".dw-guard")).toHaveLength(50);
    expect(texts(x, ".dw-guard-words")).toEqual(["x99 is an int"]);
  });

  it("are found by source, words and line", () => {
    const tree = new GuardTree([branch("x", [guard(1), guard(2, { place: "cell 7, line 5" })])]);
    const find = (text) => {
      tree.search.value = text;
      tree.search.dispatchEvent(new Event("input"));
      return texts(tree.found, ".dw-guard-words");
    };
    expect(find("INT x1")).toEqual(["x1 is an int"]);
    expect(find("cell 7")).toEqual(["x2 is an int"]);
    expect(tree.note.textContent).toBe("1 of 2 match");
    expect(tree.tree.hidden).toBe(true);
    find("");
    expect(tree.tree.hidden).toBe(false);
    expect(tree.note.textContent).toBe("2 guards");
  });

  it("of a very large model are cut where they are searched", () => {
    const tree = new GuardTree([branch("x", Array.from({ length: 300 }, (_, number) => guard(number)))]);
    tree.search.value = "x";
    tree.find();
    expect(tree.found.children).toHaveLength(200);
    expect(tree.note.textContent).toBe("300 of 300 match, the first 200 are shown");
  });

  it("say that there are none", () => expect(new GuardTree([]).element.textContent).toContain("No guards"));

  it("take markup for text", () => {
    const hostile = guard(1, { source: MARKUP, words: MARKUP, code: [MARKUP], place: MARKUP });
    expect(new GuardTree([branch(MARKUP, [hostile])]).element.querySelector("img")).toBeNull();
  });
});

describe("an entry", () => {
  const details = {
    id: "0/1",
    guards: [{ name: "x", guards: [guard(1)], children: [] }],
    inputs: [["x", "float32[4]"]],
    listings: [{ title: "your code", language: "python", text: "a", first: 1, marks: {} }],
    phases: [["tracing", 1], ["inductor", 3]],
    disk_cache: "miss",
  };

  it("is asked for, and its pages are drawn when they are turned to", () => {
    const send = vi.fn();
    const panel = new EntryPanel(send, 7);
    expect(send).toHaveBeenCalledWith({ op: "entry", number: 7 });
    panel.answer({ details });
    expect(texts(panel.element, "[role=tab]")).toEqual(["Guards", "Inputs", "your code", "Phases"]);
    expect(panel.element.querySelector(".dw-listing")).toBeNull();
    const [, inputs, code, phases] = panel.element.querySelectorAll("[role=tab]");
    for (const tab of [inputs, code, phases]) tab.click();
    expect(texts(panel.element, ".dw-inputs tbody tr")).toEqual(["xfloat32[4]"]);
    expect(texts(panel.element, ".dw-line code")).toEqual(["a"]);
    expect(texts(panel.element, ".dw-phase .dw-number")).toEqual(["1.0 s (25 %)", "3.0 s (75 %)"]);
    expect(panel.element.querySelector(".dw-phases").textContent).toContain("on disk: miss");
  });

  it("says why there is nothing to see", () => {
    const panel = new EntryPanel(() => {}, 7);
    panel.answer({ details: null, text: "nothing is kept" });
    expect(panel.element.textContent).toBe("nothing is kept");
  });
});
