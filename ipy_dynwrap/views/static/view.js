/* The inspector's view: it draws what the kernel sends (see widget.py) and decides nothing. */

import { ANSWER_MS, COUNT, button, duration, node, setText } from "./dom.js";
import { LiveLine, Timeline, WhyList } from "./lists.js";
import { Table } from "./table.js";
import { Tabs } from "./tabs.js";

export class View {
  constructor(model, el) {
    this.model = model;
    this.known = new Map();
    this.names = [];
    this.revision = 0;
    this.asked = null;
    this.build(el);
    this.onState = () => this.update();
    this.onMessage = (message) => this.receive(message);
    model.on("change:state", this.onState);
    model.on("msg:custom", this.onMessage);
    this.send({ op: "shown" });
    this.update();
  }

  destroy() {
    this.model.off("change:state", this.onState);
    this.model.off("msg:custom", this.onMessage);
    this.live.stop();
    this.send({ op: "hidden" });
  }

  send(message) {
    // A saved notebook without a kernel still shows the table.
    try {
      this.model.send(message);
    } catch {
      /* nobody is there to answer */
    }
  }

  build(el) {
    const send = (message) => this.send(message);
    this.sums = node("div", { class: "dw-sums" });
    this.live = new LiveLine();
    this.table = new Table(send, this.model.get("actions"));
    this.why = new WhyList(send, (name) => this.openWrapper(name));
    this.timeline = new Timeline(send);
    this.exported = node("span", { class: "dw-said", role: "status" });
    this.tabs = new Tabs(
      "Parts of the inspector",
      [
        { title: "Wrappers", content: this.table.element },
        { title: "Why", content: this.why.element },
        { title: "Timeline", content: this.timeline.element },
      ],
      (chosen) => {
        this.why.show(chosen === 1);
        this.timeline.show(chosen === 2);
      },
    );
    this.root = node(
      "section",
      // JupyterLab's shortcuts would take Enter, arrows and letters away from our buttons.
      { class: "dynwrap", "aria-label": "Compiled code", "data-lm-suppress-shortcuts": "true" },
      // What stands below for those who see no widget is of no use to those who do.
      node("style", {}, `.${this.model.get("static_class")} { display: none; }`),
      node("header", { class: "dw-head" }, this.sums),
      this.live.element,
      this.tabs.element,
      node(
        "footer",
        { class: "dw-foot" },
        this.unkeyed(),
        node(
          "div",
          { class: "dw-actions" },
          this.exported,
          ...["html", "json"].map((format) =>
            button(`Export ${format.toUpperCase()}`, () => this.askExport(format), { class: "dw-button dw-export" }),
          ),
        ),
      ),
    );
    el.append(this.root);
  }

  unkeyed() {
    const { title, rows } = this.model.get("unkeyed");
    return node(
      "details",
      { class: "dw-kinds" },
      node("summary", {}, title),
      node("table", {}, node("tbody", {}, ...rows.map((row) => node("tr", {}, ...row.map((text) => node("td", {}, text)))))),
    );
  }

  update() {
    const { sums, rows, total, revision, compiling } = this.model.get("state");
    this.drawSums(sums);
    this.live.update(compiling);
    this.total = total;
    if (rows.length === total) this.take(rows, rows.map((row) => row.name), revision);
    else {
      this.take(rows, null, this.revision);
      if (revision !== this.revision) this.askRows();
    }
    this.why.ask();
    this.timeline.ask();
  }

  /** Ask for the rows that changed since the last answer; one request at a time. */
  askRows() {
    if (this.asked !== null && performance.now() - this.asked < ANSWER_MS) return;
    this.asked = performance.now();
    this.send({ op: "rows", since: this.revision });
  }

  take(rows, names, revision) {
    for (const row of rows) this.known.set(row.name, row);
    this.revision = revision;
    if (names) {
      this.names = names;
      const all = new Set(names);
      for (const name of this.known.keys()) if (!all.has(name)) this.known.delete(name);
    } else {
      // As long as nobody answers, new ones stand at the end.
      const all = new Set(this.names);
      this.names = [...this.names, ...rows.map((row) => row.name).filter((name) => !all.has(name))];
    }
    const data = this.names.map((name) => this.known.get(name)).filter(Boolean);
    this.table.update(data, Math.max(0, this.total - data.length));
  }

  receive(message) {
    if (message.op === "rows") {
      this.asked = null;
      this.take(message.rows, message.names, message.revision);
      if (this.model.get("state").revision > this.revision) this.askRows();
    } else if (message.op === "why") this.why.answer(message);
    else if (message.op === "timeline") this.timeline.answer(message);
    else if (message.op === "export") this.download(message);
    else this.table.answer(message);
  }

  openWrapper(name) {
    this.tabs.choose(0);
    this.table.open(name);
  }

  askExport(format) {
    this.exporting = format;
    setText(this.exported, "Asking the kernel…");
    this.send({ op: "export", format });
  }

  /** Save what the kernel has sent; another view of this inspector may have asked for it. */
  download({ file, type, content }) {
    if (!this.exporting) return;
    this.exporting = null;
    const url = URL.createObjectURL(new Blob([content], { type }));
    node("a", { href: url, download: file }).click();
    setTimeout(() => URL.revokeObjectURL(url), ANSWER_MS);
    setText(this.exported, `Saved as ${file}.`);
  }

  drawSums(sums) {
    const figures = [
      [COUNT.format(sums.wrappers), sums.wrappers === 1 ? "wrapper" : "wrappers"],
      [COUNT.format(sums.compiles), sums.compiles === 1 ? "compilation" : "compilations"],
      sums.recompiles ? [COUNT.format(sums.recompiles), "again"] : null,
      sums.seconds ? [duration(sums.seconds), "compiling"] : null,
      [COUNT.format(sums.calls), sums.calls === 1 ? "call" : "calls"],
      sums.eager ? [COUNT.format(sums.eager), "eager", "warn"] : null,
      sums.breaks ? [COUNT.format(sums.breaks), sums.breaks === 1 ? "graph break" : "graph breaks", "warn"] : null,
    ].filter(Boolean);
    this.sums.replaceChildren(
      ...figures.map(([value, word, tone]) =>
        node("span", { class: "dw-sum", "data-tone": tone }, node("b", {}, value), ` ${word}`),
      ),
    );
  }
}

export function render({ model, el }) {
  const view = new View(model, el);
  return () => view.destroy();
}

export default { render };
