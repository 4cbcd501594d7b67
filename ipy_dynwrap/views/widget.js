/* The inspector's view: it draws what the kernel sends (see widget.py) and decides nothing.
 *
 * Everything that comes from the user is set with textContent. Rows are kept and changed in place, so that an update
 * loses neither focus nor an open row nor the reader's place.
 */

const COLUMNS = [
  { id: "target", title: "Target" },
  { id: "state", title: "State" },
  { id: "entries", title: "Entries", numeric: true, hint: "Cache entries, of torch's recompile_limit" },
  { id: "calls", title: "Calls", numeric: true, hint: "Calls that came here" },
  { id: "hits", title: "Hits", numeric: true, hint: "Calls that ran compiled code and compiled nothing" },
  { id: "eager", title: "Eager", numeric: true, hint: "Calls that ran no compiled code" },
  { id: "compiles", title: "Compiles", numeric: true, hint: "Compilations that made a graph" },
  { id: "recompiles", title: "Again", numeric: true, hint: "Compilations because no entry fitted" },
  { id: "seconds", title: "Compile time", numeric: true },
  { id: "reason", title: "Last reason" },
];
const ROWS_AT_ONCE = 200;
const ANSWER_MS = 4000;
const FLASH_MS = 1200;

const COUNT = new Intl.NumberFormat("en-US");
const ORDER = new Intl.Collator("en", { numeric: true });

let lastId = 0;

/** Make an element: `node("td", { class: "a" }, "text", child)`. */
function node(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== undefined));
  return made;
}

function fact(name, value, style) {
  return node("div", { class: style }, node("dt", {}, name), node("dd", {}, value));
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function duration(seconds) {
  if (seconds >= 59.5) return `${Math.floor(Math.round(seconds) / 60)} min ${Math.round(seconds) % 60} s`;
  if (seconds >= 9.95) return `${seconds.toFixed(0)} s`;
  if (seconds >= 0.9995) return `${seconds.toFixed(1)} s`;
  if (seconds >= 0.00995) return `${(seconds * 1e3).toFixed(0)} ms`;
  if (seconds >= 0.0009995) return `${(seconds * 1e3).toFixed(1)} ms`;
  return seconds > 0 ? `${(seconds * 1e6).toFixed(0)} µs` : "0 s";
}

function arrow(text) {
  return text.replaceAll(" -> ", " → ");
}

/** One row of the table, and the row below it that unfolds. */
class Row {
  constructor(view, name) {
    this.view = view;
    this.name = name;
    this.open = false;
    const id = `dynwrap-details-${++lastId}`;
    this.target = node("span", { class: "dw-called" });
    this.kind = node("span", { class: "dw-kind" });
    this.key = node("span", { class: "dw-key" });
    this.toggle = node(
      "button",
      { type: "button", class: "dw-toggle", "aria-expanded": "false", "aria-controls": id, onclick: () => this.flip() },
      node("span", { class: "dw-chevron", "aria-hidden": "true" }),
      node("span", { class: "dw-name" }, this.target, " ", this.kind, this.key),
    );
    this.cells = COLUMNS.map((column) =>
      node("td", { class: `dw-${column.id}${column.numeric ? " dw-number" : ""}` }),
    );
    const [target, state, entries] = this.cells;
    target.append(this.toggle);
    this.badge = node("span", { class: "dw-badge" });
    state.append(this.badge);
    this.meter = node("span", { class: "dw-meter", "aria-hidden": "true" }, node("span"));
    this.entries = node("span");
    entries.append(this.entries, this.meter);
    this.main = node("tr", { class: "dw-row" }, ...this.cells);
    this.panel = node("div", { class: "dw-panel" });
    this.details = node("tr", { class: "dw-details", id }, node("td", { colspan: COLUMNS.length }, this.panel));
    this.details.hidden = true;
  }

  update(data) {
    const before = this.data;
    this.data = data;
    if (before && JSON.stringify(before) === JSON.stringify(data)) return;
    setText(this.target, data.target);
    setText(this.kind, data.kind);
    setText(this.key, data.key);
    setText(this.badge, data.state);
    this.badge.dataset.state = data.state;
    setText(this.entries, `${data.entries} of ${data.limit}`);
    this.meter.firstChild.style.width = `${Math.min(100, (100 * data.entries) / Math.max(1, data.limit))}%`;
    this.meter.dataset.full = data.entries >= data.limit;
    COLUMNS.forEach((column, index) => {
      if (column.id === "seconds") setText(this.cells[index], data.seconds ? duration(data.seconds) : "–");
      else if (column.id === "reason") setText(this.cells[index], arrow(data.reason));
      else if (column.numeric && column.id !== "entries") {
        setText(this.cells[index], COUNT.format(data[column.id]));
        this.cells[index].classList.toggle("dw-zero", data[column.id] === 0);
      }
    });
    this.cells.at(-1).title = data.reason;
    if (before && before.compiles !== data.compiles) this.flash();
    if (this.open) this.ask();
  }

  flash() {
    this.main.classList.add("dw-new");
    setTimeout(() => this.main.classList.remove("dw-new"), FLASH_MS);
  }

  flip() {
    this.open = !this.open;
    this.toggle.setAttribute("aria-expanded", String(this.open));
    this.main.classList.toggle("dw-open", this.open);
    this.details.hidden = !this.open;
    if (!this.open) return;
    if (!this.panel.firstChild) this.panel.append(node("p", { class: "dw-muted" }, "Asking the kernel…"));
    this.ask();
  }

  ask() {
    clearTimeout(this.late);
    this.late = setTimeout(() => {
      if (this.drawn) return;
      this.panel.replaceChildren(
        node("p", { class: "dw-muted" }, "No answer: the kernel is busy, or this notebook has none."),
      );
    }, ANSWER_MS);
    this.view.send({ op: "details", name: this.name });
  }

  answer(details) {
    clearTimeout(this.late);
    if (!details) {
      this.panel.replaceChildren(node("p", { class: "dw-muted" }, "This wrapper is gone."));
      return;
    }
    if (!this.drawn) this.draw();
    this.facts.replaceChildren(...details.facts.map(([name, value]) => fact(name, value)));
    if (details.breaks) this.facts.append(fact("graph breaks", String(details.breaks)));
    // Columns that a narrow cell has no room for.
    const { calls, hits, compiles, recompiles, seconds, reason } = this.data;
    const figures = [`${calls} calls`, `${hits} hits`, `${compiles} compiles`, `${recompiles} again`, duration(seconds)];
    this.facts.append(fact("counts", figures.join(", "), "dw-narrow"));
    if (reason) this.facts.append(fact("last reason", arrow(reason), "dw-narrow"));
    const longest = Math.max(1e-9, ...details.entries.map((entry) => entry.compile));
    this.list.replaceChildren(...details.entries.map((entry) => this.entry(entry, longest)));
    this.table.hidden = !details.entries.length;
    this.empty.hidden = details.entries.length > 0;
  }

  draw() {
    this.drawn = true;
    this.facts = node("dl", { class: "dw-facts" });
    this.said = node("span", { class: "dw-said", role: "status" });
    const reset = node("button", { type: "button", class: "dw-button", onclick: () => this.reset() }, "Reset");
    reset.title = "Drop this wrapper's entries: its next call compiles again";
    reset.setAttribute("aria-label", `Reset ${this.data.target}`);
    const heads = ["Entry", "Why", "Asked for in", "Hits", "Run time", "Compile time"];
    this.list = node("tbody");
    this.table = node(
      "table",
      { class: "dw-entries" },
      node("caption", { class: "dw-hidden" }, "Cache entries, oldest first"),
      node(
        "thead",
        {},
        node("tr", {}, ...heads.map((title, i) => node("th", { scope: "col", class: i > 2 ? "dw-number" : "" }, title))),
      ),
      this.list,
    );
    this.empty = node("p", { class: "dw-muted" }, "No cache entries.");
    this.panel.replaceChildren(
      node("div", { class: "dw-panel-head" }, this.facts, node("div", { class: "dw-actions" }, this.said, reset)),
      this.table,
      this.empty,
    );
  }

  entry(entry, longest) {
    const bar = node("span", { class: "dw-bar", "aria-hidden": "true" }, node("span"));
    bar.firstChild.style.width = `${(100 * entry.compile) / longest}%`;
    const why = entry.reason
      ? node("td", { class: "dw-why" }, arrow(entry.reason))
      : node("td", { class: "dw-muted" }, "first compilation");
    return node(
      "tr",
      {},
      node("td", { class: "dw-id", title: entry.frame }, entry.id),
      why,
      node("td", { class: "dw-place" }, entry.place),
      node("td", { class: "dw-number" }, COUNT.format(entry.hits)),
      node("td", { class: "dw-number" }, duration(entry.run)),
      node("td", { class: "dw-number dw-time" }, bar, duration(entry.compile)),
    );
  }

  reset() {
    setText(this.said, "");
    this.view.send({ op: "reset", name: this.name });
  }

  say(text) {
    if (this.said) setText(this.said, text);
  }
}

class View {
  constructor(model, el) {
    this.model = model;
    this.rows = new Map();
    this.more = [];
    this.sort = { id: null, down: false };
    this.shown = ROWS_AT_ONCE;
    this.build(el);
    this.onState = () => this.update();
    this.onMessage = (message) => this.receive(message);
    model.on("change:state", this.onState);
    model.on("msg:custom", this.onMessage);
    this.clock = setInterval(() => this.tick(), 100);
    this.send({ op: "shown" });
    this.update();
  }

  destroy() {
    this.model.off("change:state", this.onState);
    this.model.off("msg:custom", this.onMessage);
    clearInterval(this.clock);
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
    this.sums = node("div", { class: "dw-sums" });
    this.filter = node("input", {
      type: "search",
      class: "dw-filter",
      placeholder: "Filter",
      "aria-label": "Filter by name, state, key or reason",
      oninput: () => this.arrange(),
    });
    this.heads = COLUMNS.map((column) =>
      node(
        "th",
        { scope: "col", class: `dw-${column.id}${column.numeric ? " dw-number" : ""}`, title: column.hint },
        node("button", { type: "button", onclick: () => this.sortBy(column.id) }, column.title),
      ),
    );
    this.body = node("tbody");
    this.table = node(
      "table",
      { class: "dw-table" },
      node("caption", { class: "dw-hidden" }, "Wrappers of compiled code"),
      node("thead", {}, node("tr", {}, ...this.heads)),
      this.body,
    );
    this.note = node("p", { class: "dw-muted dw-note" });
    this.all = node("button", { type: "button", class: "dw-button", onclick: () => this.showMore() });
    this.all.hidden = true;
    this.busy = node("span", { role: "status" });
    this.seconds = node("span", { class: "dw-seconds", "aria-hidden": "true" });
    this.live = node(
      "div",
      { class: "dw-live" },
      node("span", { class: "dw-pulse", "aria-hidden": "true" }),
      this.busy,
      this.seconds,
    );
    this.root = node(
      "section",
      // JupyterLab's shortcuts would take Enter, arrows and letters away from our buttons.
      { class: "dynwrap", "aria-label": "Compiled code", "data-lm-suppress-shortcuts": "true" },
      node("header", { class: "dw-head" }, this.sums, this.filter),
      this.live,
      node("div", { class: "dw-scroll" }, this.table),
      this.note,
      this.all,
      this.unkeyed(),
    );
    el.append(this.root);
  }

  /** What guards look at that is no part of a key: one fold for the whole inspector. */
  unkeyed() {
    const { title, rows } = this.model.get("unkeyed");
    const row = (parts) => node("tr", {}, ...parts.map((part) => node("td", {}, part)));
    return node(
      "details",
      { class: "dw-kinds" },
      node("summary", {}, title),
      node("table", {}, node("tbody", {}, ...rows.map(row))),
    );
  }

  update() {
    const { sums, rows, compiling } = this.model.get("state");
    this.total = sums.wrappers;
    this.drawSums(sums);
    this.compiling = compiling;
    this.since = performance.now();
    setText(this.busy, compiling.length ? arrow(compiling[0].text) : "");
    this.live.classList.toggle("dw-active", compiling.length > 0);
    this.tick();
    this.synced = rows;
    if (rows.length < sums.wrappers) this.askRows(rows.length);
    else this.more = [];
    this.fill();
  }

  /** Ask for the rows that the synced state has no room for; one request at a time. */
  askRows(from) {
    if (this.asked && performance.now() - this.asked < ANSWER_MS) return;
    this.asked = performance.now();
    this.send({ op: "rows", from });
  }

  receive(message) {
    if (message.op === "rows") {
      this.asked = null;
      // The synced part may have grown or shrunk meanwhile.
      const known = new Set(this.synced.map((row) => row.name));
      this.more = message.rows.filter((row) => !known.has(row.name));
      this.fill();
    } else if (message.op === "details") this.rows.get(message.name)?.answer(message.details);
    else if (message.op === "said") this.rows.get(message.name)?.say(message.text);
  }

  fill() {
    const data = this.more.length ? [...this.synced, ...this.more] : this.synced;
    const names = new Set();
    data.forEach((item, index) => {
      names.add(item.name);
      let row = this.rows.get(item.name);
      if (!row) this.rows.set(item.name, (row = new Row(this, item.name)));
      row.index = index;
      row.update(item);
    });
    for (const name of this.rows.keys()) if (!names.has(name)) this.rows.delete(name);
    this.arrange();
  }

  /** Put the rows that match into their order, and touch only what is out of place. */
  arrange() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = [...this.rows.values()].sort((a, b) => this.compare(a, b));
    const matching = all.filter(({ data }) => {
      if (!words.length) return true;
      const text = `${data.target} ${data.kind} ${data.name} ${data.state} ${data.key} ${data.reason}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const wanted = matching.slice(0, this.shown).flatMap((row) => [row.main, row.details]);
    const keep = new Set(wanted);
    for (const element of [...this.body.children]) if (!keep.has(element)) element.remove();
    wanted.forEach((element, index) => {
      if (this.body.children[index] !== element) this.body.insertBefore(element, this.body.children[index] ?? null);
    });
    this.table.hidden = !matching.length;
    const left = matching.length - Math.min(matching.length, this.shown);
    this.all.hidden = !left;
    setText(this.all, `Show ${Math.min(left, ROWS_AT_ONCE)} more of ${COUNT.format(left)}`);
    let note = "";
    if (!this.rows.size) note = "Nothing has been compiled yet. Put %%compile at the top of a cell, and run it.";
    else if (!matching.length) note = "No wrapper matches the filter.";
    else if (words.length) note = `${COUNT.format(matching.length)} of ${COUNT.format(this.rows.size)} match.`;
    setText(this.note, note);
  }

  compare(a, b) {
    const { id, down } = this.sort;
    if (id) {
      const [left, right] = [a.data[id], b.data[id]];
      const order = typeof left === "number" ? left - right : ORDER.compare(left, right);
      if (order) return down ? -order : order;
    }
    return a.index - b.index;
  }

  /** Numbers start with the largest; a third click gives the order of creation back. */
  sortBy(id) {
    const first = Boolean(COLUMNS.find((column) => column.id === id).numeric);
    if (this.sort.id !== id) this.sort = { id, down: first };
    else if (this.sort.down === first) this.sort = { id, down: !first };
    else this.sort = { id: null, down: false };
    this.heads.forEach((head, index) => {
      if (COLUMNS[index].id !== this.sort.id) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", this.sort.down ? "descending" : "ascending");
    });
    this.arrange();
  }

  showMore() {
    this.shown += ROWS_AT_ONCE;
    this.arrange();
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

  tick() {
    const first = this.compiling?.[0];
    const others = this.compiling?.length - 1;
    const seconds = first ? first.seconds + (performance.now() - this.since) / 1000 : 0;
    setText(this.seconds, first ? `· ${seconds.toFixed(1)} s${others > 0 ? ` · and ${others} more` : ""}` : "");
  }
}

function render({ model, el }) {
  const view = new View(model, el);
  return () => view.destroy();
}

export default { render };
