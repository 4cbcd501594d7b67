import { COUNT, bar, duration, muted, node, waitIn } from "./dom.js";
import { GuardTree } from "./guards.js";
import { CodeListing } from "./listing.js";
import { Tabs } from "./tabs.js";

/** What is kept of one cache entry: guards, inputs, listings, phases. */
export class EntryPanel {
  constructor(send, number) {
    this.element = node("div", { class: "dw-entry" });
    this.done = waitIn(this.element);
    send({ op: "entry", number });
  }

  answer({ details, text }) {
    this.done();
    if (!details) this.element.replaceChildren(muted(text));
    else if (!this.drawn) {
      this.drawn = true;
      this.element.replaceChildren(this.draw(details));
    }
  }

  draw({ id, guards, inputs, listings, phases, disk_cache: disk }) {
    // Nothing but the first page is drawn before somebody turns to it.
    const pages = [["Guards", () => new GuardTree(guards).element]];
    if (inputs.length) pages.push(["Inputs", () => inputTable(inputs)]);
    for (const listing of listings) pages.push([listing.title, () => new CodeListing(listing).element]);
    if (phases.length || disk) pages.push(["Phases", () => phaseTable(phases, disk)]);
    const places = pages.map(() => node("div"));
    return new Tabs(
      `Entry ${id}`,
      pages.map(([title], index) => ({ title, content: places[index] })),
      (index) => places[index].firstChild ?? places[index].append(pages[index][1]()),
    ).element;
  }
}

function inputTable(inputs) {
  return node(
    "table",
    { class: "dw-inputs" },
    node("caption", { class: "dw-hidden" }, "Inputs of the graph"),
    node("thead", {}, node("tr", {}, ...["Input", "What it is"].map((title) => node("th", { scope: "col" }, title)))),
    node(
      "tbody",
      {},
      ...inputs.map(([name, what]) =>
        node("tr", {}, node("th", { scope: "row" }, node("code", {}, name)), node("td", {}, what)),
      ),
    ),
  );
}

function phaseTable(phases, disk) {
  const longest = Math.max(1e-9, ...phases.map(([, seconds]) => seconds));
  const sum = Math.max(1e-9, phases.reduce((so, [, seconds]) => so + seconds, 0));
  const made = node("div", { class: "dw-phases" });
  if (disk) made.append(muted(`The compiler's cache on disk: ${disk}`));
  made.append(
    ...phases.map(([name, seconds]) =>
      node(
        "div",
        { class: "dw-phase" },
        node("span", { class: "dw-phase-name" }, name),
        bar([seconds / longest, "compile"]),
        node("span", { class: "dw-number" }, `${duration(seconds)} (${COUNT.format(Math.round((100 * seconds) / sum))} %)`),
      ),
    ),
  );
  return made;
}
