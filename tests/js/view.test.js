/** The whole view over a model: rows, families, sorting, what is asked for and what comes of the answers. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import widget from "../../ipy_dynwrap/views/static/view.js";
import { MARKUP, Model, family, members, press, row, state, texts } from "./made_up.js";

let model, el, end;

function show(first, { actions } = {}) {
  model = new Model(first);
  if (actions) model.traits.actions = actions;
  el = document.createElement("div");
  document.body.append(el);
  end = widget.render({ model, el });
}

const find = (selector) => el.querySelector(selector);
const all = (selector) => texts(el, selector);
const rows = () => [...el.querySelectorAll(".dw-row:not(.dw-family)")];

function filter(text) {
  find(".dw-tools .dw-filter").value = text;
  find(".dw-tools .dw-filter").dispatchEvent(new Event("input"));
}

function unfold(number, details = {}) {
  const toggle = rows()[number].querySelector(".dw-toggle");
  toggle.click();
  const { name } = model.sent.at(-1);
  model.answer({ op: "details", name, details: { facts: [["wrapper", name]], entries: [entry(1), entry(0)], ...details } });
  return toggle;
}

function entry(number) {
  return { number, id: `0/${number}`, frame: "f", hits: 3, run: 1, compile: 2, place: "cell 2, line 7", reason: "x 4 -> 5" };
}

const ENTRY = { id: "0/1", guards: [], inputs: [], listings: [], phases: [], disk_cache: null };

beforeEach(() => vi.useFakeTimers());
afterEach(() => {
  end();
  vi.useRealTimers();
  document.body.replaceChildren();
});

describe("the table", () => {
  it("says what to do when it is empty", () => {
    show(state([]));
    expect(find(".dw-note").textContent).toContain("%%compile");
    expect(find(".dw-table").hidden).toBe(true);
  });

  it("says what each wrapper is and does", () => {
    show(state([row(3, { news: "new", eager: 4, entries: 8, state: "at limit" })]));
    expect(all(".dw-row .dw-name")).toEqual(["Net.forward module · inductor self.k = 3new"]);
    expect(all(".dw-row td")).toEqual(
      ["at limit", "8 of 8", "30", "3", "4", "2", "1", "250 ms", "500 ms", "x.shape[0] 4 → 5"],
    );
    expect(find(".dw-meter").dataset.full).toBe("true");
  });

  it("sorts by a column, the other way, and not at all, and tells assistive technology", () => {
    show(state([row(2), row(1), row(3)]));
    const head = find("th.dw-calls");
    const clicked = () => {
      head.querySelector("button").click();
      return [head.getAttribute("aria-sort"), all("td.dw-calls").join(" ")];
    };
    expect(clicked()).toEqual(["descending", "30 20 10"]);
    expect(clicked()).toEqual(["ascending", "10 20 30"]);
    expect(clicked()).toEqual([null, "20 10 30"]);
  });

  it("filters by all words, in whatever field", () => {
    show(state([row(1, { target: "loss_fn" }), row(2, { state: "at limit" }), row(3)]));
    filter("AT limit net");
    expect(rows()).toHaveLength(1);
    expect(find(".dw-note").textContent).toBe("1 of 3 match.");
    filter("nothing like it");
    expect(find(".dw-note").textContent).toBe("No wrapper matches the filter.");
    filter("");
    expect(rows()).toHaveLength(3);
  });

  it("draws a thousand rows in parts", () => {
    show(state(Array.from({ length: 1000 }, (_, number) => row(number))));
    expect(rows()).toHaveLength(60);
    expect(find(".dw-more").textContent).toBe("Show 60 more of 940");
    find(".dw-more").click();
    expect(rows()).toHaveLength(120);
    filter("self.k = 999");
    expect(rows()).toHaveLength(1);
    filter("");
    find("th.dw-calls button").click();
    expect(rows()).toHaveLength(60);
    expect(all("td.dw-calls")[0]).toBe("9,990");
  });

  it("keeps rows and focus through an update, and marks what compiled", () => {
    show(state([row(1), row(2)]));
    const [first] = rows();
    first.querySelector("button").focus();
    model.change(state([row(1, { compiles: 3, calls: 11 }), row(2)]));
    expect(rows()[0]).toBe(first);
    expect(document.activeElement).toBe(first.querySelector("button"));
    expect(first.classList).toContain("dw-changed");
    vi.runAllTimers();
    expect(first.classList).not.toContain("dw-changed");
    model.change(state([row(2)]));
    expect(rows()).toHaveLength(1);
  });

  it("takes markup for text", () => {
    show(
      state([
        row(1, { name: MARKUP, target: MARKUP, kind: MARKUP, options: MARKUP, key: [[MARKUP, MARKUP]], reason: MARKUP }),
      ]),
    );
    unfold(0, { facts: [[MARKUP, MARKUP]], entries: [{ ...entry(1), id: MARKUP, place: MARKUP, reason: MARKUP }] });
    expect(find("img")).toBeNull();
    expect(all(".dw-called")).toEqual([MARKUP]);
  });
});

describe("a family", () => {
  it("has a row with what tells its wrappers apart, in columns", () => {
    show(state([family(3), ...members(3), row(9, { target: "loss_fn" })]));
    expect(all(".dw-family .dw-called")).toEqual(["Net.forward"]);
    expect(find(".dw-because").textContent).toBe("3 wrappers by self.k (3 values)");
    expect(find(".dw-alone").textContent).toContain("torch.compile alone");
    expect(all(".dw-fields .dw-grid > span")).toEqual(["self.k"]);
    expect(all(".dw-member .dw-key > span")).toEqual(["self.k = 0", "self.k = 1", "self.k = 2"]);
    expect(all(".dw-member .dw-called").every((text) => text === "Net.forward")).toBe(true);
  });

  it("with long fields writes them below each other", () => {
    const long = "length of self.head._forward_hooks of something";
    show(state([family(2, { fields: [[long, 2]] }), ...members(2, { key: [[long, "0"]] })]));
    expect(find(".dw-fields")).toBeNull();
    expect(all(".dw-key")[0]).toBe(`${long} = 0`);
  });

  it("is folded and unfolded, and stays so", () => {
    show(state([family(3), ...members(3)]));
    const toggle = find(".dw-family .dw-toggle");
    expect(toggle.getAttribute("aria-expanded")).toBe("true");
    toggle.click();
    expect(toggle.getAttribute("aria-expanded")).toBe("false");
    expect(rows()).toHaveLength(0);
    model.change(state([family(3, { calls: 99 }), ...members(3)]));
    expect(rows()).toHaveLength(0);
    // What a filter finds is seen all the same.
    filter("self.k = 2");
    expect(rows()).toHaveLength(1);
  });

  it("of many wrappers is folded at first", () => {
    show(state([family(20), ...members(20)]));
    expect(rows()).toHaveLength(0);
    find(".dw-family .dw-toggle").click();
    expect(rows()).toHaveLength(20);
  });

  it("is sorted as one, and its wrappers within it", () => {
    show(state([row(5, { target: "a" }), family(2, { calls: 1000 }), ...members(2)]));
    find("th.dw-calls button").click();
    expect(all("td.dw-calls")).toEqual(["1,000", "10", "0", "50"]);
    find(".dw-grouping input").click();
    expect(all("td.dw-calls")).toEqual(["50", "10", "0"]);
    expect(all(".dw-key")).toEqual(["self.k = 5", "self.k = 1", "self.k = 0"]);
  });

  it("is not offered where there is none", () => {
    show(state([row(1)]));
    expect(find(".dw-grouping").hidden).toBe(true);
  });
});

describe("what the state has no room for", () => {
  const few = (changes) => state([row(1)], { total: 3, revision: 5, ...changes });

  it("is asked for once, and then only what changed", () => {
    show(few());
    expect(model.asked("rows")).toEqual([{ op: "rows", since: 0 }]);
    expect(find(".dw-note").textContent).toContain("2 more rows are in the kernel");
    model.change(few({ revision: 6 }));
    expect(model.asked("rows")).toHaveLength(1);
    const names = ["Net#3", "Net#1", "Net#2"];
    model.answer({ op: "rows", revision: 5, names, rows: [row(3), row(1), row(2)] });
    expect(all("td.dw-calls")).toEqual(["30", "10", "20"]);
    // It was of an older revision than the state is now.
    expect(model.asked("rows").at(-1)).toEqual({ op: "rows", since: 5 });
    model.answer({ op: "rows", revision: 6, names: null, rows: [row(2, { calls: 21 })] });
    expect(all("td.dw-calls")).toEqual(["30", "10", "21"]);
    expect(model.asked("rows")).toHaveLength(2);
    expect(find(".dw-note").textContent).toBe("");
  });

  it("is missing where no kernel is there", () => {
    show(few());
    model.send = () => {
      throw new Error("no kernel");
    };
    model.change(few({ revision: 7 }));
    expect(rows()).toHaveLength(1);
    expect(find(".dw-note").textContent).toContain("2 more rows");
  });
});

describe("a row that unfolds", () => {
  it("asks for its details, and closes by Escape", () => {
    show(state([row(1)]));
    const toggle = unfold(0);
    expect(toggle.getAttribute("aria-expanded")).toBe("true");
    expect(document.getElementById(toggle.getAttribute("aria-controls"))).toBe(find(".dw-details"));
    expect(all(".dw-entry-table tbody tr")).toHaveLength(2);
    expect(all(".dw-why")[0]).toBe("x 4 → 5");
    press(find(".dw-entry-table"), "Escape");
    expect(find(".dw-details")).toBeNull();
    expect(document.activeElement).toBe(toggle);
  });

  it("says that its wrapper is gone", () => {
    show(state([row(1)]));
    rows()[0].querySelector("button").click();
    model.answer({ op: "details", name: "Net#1", details: null });
    expect(find(".dw-panel").textContent).toBe("This wrapper is gone.");
  });

  it("says that nobody answers", () => {
    show(state([row(1)]));
    rows()[0].querySelector("button").click();
    vi.runAllTimers();
    expect(find(".dw-panel").textContent).toContain("No answer");
  });

  it("opens an entry that is kept, through updates, until Escape", () => {
    show(state([row(1)]));
    unfold(0);
    expect(el.querySelectorAll(".dw-opener")).toHaveLength(1);
    find(".dw-opener").click();
    expect(model.asked("entry")).toEqual([{ op: "entry", number: 1 }]);
    model.answer({ op: "entry", number: 1, details: ENTRY });
    const drawn = find(".dw-entry [role=tablist]");
    model.change(state([row(1, { calls: 11 })]));
    model.answer({ op: "details", name: "Net#1", details: { facts: [], entries: [entry(1)] } });
    expect(find(".dw-entry [role=tablist]")).toBe(drawn);
    expect(find(".dw-opener").getAttribute("aria-expanded")).toBe("true");
    press(drawn, "Escape");
    expect(find(".dw-entry")).toBeNull();
    expect(find(".dw-details")).not.toBeNull();
    expect(document.activeElement).toBe(find(".dw-opener"));
  });

  it("acts, and says what came of it", () => {
    show(state([row(1)]));
    unfold(0);
    find(".dw-act-skip").click();
    expect(model.sent.at(-1)).toEqual({ op: "skip", name: "Net#1" });
    model.answer({ op: "said", name: "Net#1", text: "Not now." });
    expect(all(".dw-panel .dw-said")).toEqual(["Not now."]);
    find(".dw-act-reset").click();
    expect(model.sent.at(-1)).toEqual({ op: "reset", name: "Net#1" });
  });

  it("offers only what the kernel can do", () => {
    show(state([row(1)]), { actions: ["reset"] });
    unfold(0);
    expect(find(".dw-act-skip")).toBeNull();
  });
});

describe("lists", () => {
  const tab = (title) => [...el.querySelectorAll("[role=tab]")].find((each) => each.textContent === title).click();
  const why = (changes) => ({
    outcome: "compiled again", wrapper: "Net#1", target: "Net.forward", place: "cell 3, line 2",
    reason: "x.shape[0] 4 -> 5", others: ["k 1 -> 2"], advice: "mark it", times: 1, ...changes,
  });

  it("are asked for when they are looked at, one request at a time", () => {
    show(state([row(1)]));
    expect(model.asked("why")).toHaveLength(0);
    tab("Why");
    model.change(state([row(1)], { revision: 2 }));
    expect(model.asked("why")).toHaveLength(1);
    model.answer({ op: "why", whys: [], more: 0 });
    expect(model.asked("why")).toHaveLength(2);
    model.answer({ op: "why", whys: [], more: 0 });
    expect(model.asked("why")).toHaveLength(2);
    tab("Wrappers");
    model.change(state([row(1)], { revision: 3 }));
    expect(model.asked("why")).toHaveLength(2);
  });

  it("say why, where, and what one can do, and lead to the wrapper", () => {
    show(state([family(20), ...members(20)]));
    tab("Why");
    model.answer({ op: "why", whys: [why({}), why({ times: 3, advice: "", target: MARKUP, reason: MARKUP })], more: 2 });
    expect(all(".dw-list-why .dw-because")).toEqual(["x.shape[0] 4 → 5", MARKUP]);
    expect(all(".dw-list-why .dw-advice")).toEqual(["mark it"]);
    expect(find(".dw-list-why").textContent).toContain("3 times");
    expect(find(".dw-list-why").textContent).toContain("and 2 more");
    expect(find("img")).toBeNull();
    find(".dw-list-why .dw-link").click();
    expect(all("[aria-selected=true]")).toEqual(["Wrappers"]);
    expect(model.sent.at(-1)).toEqual({ op: "details", name: "Net#1" });
    expect(document.activeElement.closest(".dw-row").classList).toContain("dw-open");
  });

  it("draw the timeline to scale", () => {
    show(state([]));
    tab("Timeline");
    const run = { label: "In [3]", at: 0, seconds: 10, compile: 5, run: 2.5, text: "2 compilations", compiled: ["Net"], failed: false };
    model.answer({ op: "timeline", runs: [run, { ...run, seconds: 1, compile: 0, run: 0, compiled: [], failed: true }], more: 0 });
    const widths = [...el.querySelectorAll(".dw-item")].map((item) =>
      [...item.querySelectorAll(".dw-bar span")].map((part) => [part.dataset.kind, part.style.width]),
    );
    expect(widths).toEqual([
      [["compile", "50%"], ["run", "25%"], ["rest", "25%"]],
      [["rest", "10%"]],
    ]);
    expect(all(".dw-item")[0]).toContain("10 s · 5.0 s compiling · 2.5 s in compiled code · 2 compilations");
    expect(all(".dw-list-timeline .dw-because")).toEqual(["compiled Net"]);
  });
});

describe("the rest", () => {
  it("saves what the kernel sends, if this view asked for it", () => {
    show(state([]));
    const made = [];
    vi.stubGlobal("URL", { createObjectURL: (blob) => made.push(blob) && "blob:x", revokeObjectURL: vi.fn() });
    vi.spyOn(HTMLAnchorElement.prototype, "click").mockImplementation(() => {});
    const answer = { op: "export", file: "inspector.json", type: "application/json", content: "{}" };
    model.answer(answer);
    expect(made).toHaveLength(0);
    el.querySelectorAll(".dw-export")[1].click();
    expect(model.sent.at(-1)).toEqual({ op: "export", format: "json" });
    model.answer(answer);
    expect([made[0].type, made[0].size]).toEqual(["application/json", 2]);
    expect(find(".dw-foot .dw-said").textContent).toBe("Saved as inspector.json.");
  });

  it("says what compiles, and for how long", () => {
    show(state([]));
    model.change(state([], { compiling: [{ text: "compiling f: x 4 -> 5", seconds: 2 }, { text: "g", seconds: 1 }] }));
    expect(find(".dw-live").classList).toContain("dw-active");
    vi.advanceTimersByTime(1000);
    expect(find(".dw-live").textContent).toBe("compiling f: x 4 → 5· 3.0 s · and 1 more");
    model.change(state([]));
    expect(find(".dw-live").classList).not.toContain("dw-active");
    expect(vi.getTimerCount()).toBe(0);
  });

  it("tells the kernel whether somebody looks, and leaves nothing behind", () => {
    show(state([], { compiling: [{ text: "f", seconds: 0 }] }));
    expect(model.sent[0]).toEqual({ op: "shown" });
    end();
    expect(model.sent.at(-1)).toEqual({ op: "hidden" });
    expect(model.heard).toEqual({});
    expect(vi.getTimerCount()).toBe(0);
  });
});
