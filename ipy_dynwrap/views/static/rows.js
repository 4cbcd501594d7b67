import { COUNT, arrow, bar, button, duration, freshId, muted, node, onEscape, setText, waitIn } from "./dom.js";
import { EntryPanel } from "./entry.js";

export const COLUMNS = [
  { id: "target", title: "Target" },
  { id: "state", title: "State" },
  { id: "entries", title: "Entries", numeric: true, hint: "Cache entries, of torch's recompile_limit" },
  { id: "calls", title: "Calls", numeric: true, hint: "Calls that came here" },
  { id: "hits", title: "Hits", numeric: true, hint: "Calls that ran compiled code and compiled nothing" },
  { id: "eager", title: "Eager", numeric: true, hint: "Calls that ran no compiled code" },
  { id: "compiles", title: "Compiles", numeric: true, hint: "Compilations that made a graph" },
  { id: "recompiles", title: "Again", numeric: true, hint: "Compilations because no entry fitted" },
  { id: "seconds", title: "Compile time", numeric: true },
  { id: "run", title: "Run time", numeric: true, hint: "Wall time inside compiled code" },
  { id: "reason", title: "Last reason" },
];

const FLASH_MS = 1200;
const NEWS = { new: "new", again: "compiled again" };
const ACTIONS = {
  reset: ["Reset", "Drop this wrapper's entries: its next call compiles again"],
  skip: ["Skip", "Run its target eager from now on"],
};
// Fields whose names and values would not fit side by side are written below each other.
const GRID_FIELDS = 3;
const GRID_CHARACTERS = 44;

/** What rows of wrappers and of families have in common: the cells, and a button that unfolds. */
class Row {
  constructor(name, ontoggle) {
    this.name = name;
    this.open = false;
    this.called = node("span", { class: "dw-called" });
    this.news = node("span", { class: "dw-news" });
    this.kind = node("span", { class: "dw-kind" });
    this.toggle = node(
      "button",
      { type: "button", class: "dw-toggle", "aria-expanded": "false", onclick: ontoggle },
      node("span", { class: "dw-chevron", "aria-hidden": "true" }),
      (this.label = node("span", { class: "dw-name" }, this.called, " ", this.kind, " ", this.news)),
    );
    this.cells = COLUMNS.map((column, index) =>
      node(index ? "td" : "th", {
        class: `dw-${column.id}${column.numeric ? " dw-number" : ""}`,
        scope: index ? undefined : "row",
      }),
    );
    this.badge = node("span", { class: "dw-badge" });
    this.meter = node("span", { class: "dw-meter", "aria-hidden": "true" }, node("span"));
    this.entries = node("span");
    const [target, state, entries] = this.cells;
    target.append(this.toggle);
    state.append(this.badge);
    entries.append(this.entries, this.meter);
    this.main = node("tr", { class: "dw-row" }, ...this.cells);
  }

  update(data) {
    const before = this.data;
    if (before === data) return;
    this.data = data;
    setText(this.called, data.target);
    setText(this.kind, [data.kind, data.options].filter(Boolean).join(" · "));
    setText(this.news, NEWS[data.news] ?? "");
    setText(this.badge, data.state);
    this.badge.dataset.state = data.state;
    setText(this.entries, `${data.entries} of ${data.limit}`);
    this.meter.firstChild.style.width = `${Math.min(100, (100 * data.entries) / Math.max(1, data.limit))}%`;
    this.meter.dataset.full = data.entries >= data.limit;
    COLUMNS.forEach(({ id, numeric }, index) => {
      if (id === "seconds" || id === "run") setText(this.cells[index], data[id] ? duration(data[id]) : "–");
      else if (id === "reason") setText(this.cells[index], arrow(data.reason));
      else if (numeric && id !== "entries") {
        setText(this.cells[index], COUNT.format(data[id]));
        this.cells[index].classList.toggle("dw-zero", data[id] === 0);
      }
    });
    if (before && before.compiles !== data.compiles) this.flash();
  }

  flash() {
    this.main.classList.add("dw-changed");
    setTimeout(() => this.main.classList.remove("dw-changed"), FLASH_MS);
  }

  unfold(open) {
    this.open = open;
    this.toggle.setAttribute("aria-expanded", String(open));
    this.main.classList.toggle("dw-open", open);
  }
}

function inGrid(fields) {
  const characters = fields.reduce((sum, field) => sum + field.length, 0);
  return fields.length > 0 && fields.length <= GRID_FIELDS && characters <= GRID_CHARACTERS;
}

/** Wrappers of one family: what tells them apart, and what torch.compile alone would have made of them. */
export class FamilyRow extends Row {
  constructor(name, table) {
    super(name, () => table.flipFamily(this));
    this.main.classList.add("dw-family");
    this.because = node("span", { class: "dw-because" });
    this.alone = node("span", { class: "dw-alone" });
    this.about = node("tr", { class: "dw-about" }, node("td", { colspan: COLUMNS.length }, this.because, this.alone));
    this.fields = node("div", { class: "dw-grid" });
    // Assistive technology hears the field with each value.
    this.heads = node(
      "tr",
      { class: "dw-fields", "aria-hidden": "true" },
      node("td", {}, this.fields),
      node("td", { colspan: COLUMNS.length - 1 }),
    );
  }

  update(data) {
    if (this.data === data) return;
    super.update(data);
    const fields = data.fields.map(([field, values]) => (values > 1 ? `${field} (${values} values)` : field));
    setText(this.because, `${COUNT.format(data.wrappers)} wrappers${fields.length ? ` by ${fields.join(", ")}` : ""}`);
    setText(this.alone, [data.alone, ...data.retired.map((line) => `no key: ${line}`)].filter(Boolean).join(" · "));
    this.names = data.fields.map(([field]) => field);
    this.isGrid = inGrid(this.names);
    this.fields.style.setProperty("--dw-fields", this.names.length);
    this.fields.replaceChildren(...this.names.map((field) => node("span", {}, field)));
  }

  /** The rows that stand before the wrappers'. */
  elements() {
    return this.open && this.isGrid ? [this.main, this.about, this.heads] : [this.main, this.about];
  }
}

/** One wrapper, and the panel below it that unfolds. */
export class WrapperRow extends Row {
  constructor(name, table) {
    super(name, () => this.flip());
    this.table = table;
    this.send = table.send;
    this.key = node("span", { class: "dw-key" });
    this.label.insertBefore(this.key, this.news);
    this.panels = new Map();
  }

  update(data, family) {
    if (this.data === data && this.family === family) return;
    this.family = family;
    super.update(data);
    this.main.classList.toggle("dw-member", Boolean(family));
    // The family's row says it, just above.
    for (const each of [this.called, this.kind]) each.classList.toggle("dw-hidden", Boolean(family));
    const grid = Boolean(family?.isGrid && data.key.length);
    this.key.classList.toggle("dw-grid", grid);
    if (grid) {
      const values = new Map(data.key);
      this.key.style.setProperty("--dw-fields", family.names.length);
      const cells = family.names.map((field) =>
        node("span", {}, node("span", { class: "dw-hidden" }, `${field} = `), values.get(field) ?? "–"),
      );
      this.key.replaceChildren(...cells);
    } else {
      const more = data.more ? ` and ${data.more} more` : "";
      const key = data.key.map(([field, value]) => `${field} = ${value}`).join(", ") + more;
      setText(this.key, key || (family ? (data.member ?? "") : ""));
    }
    if (this.open) this.ask();
  }

  elements() {
    return this.open ? [this.main, this.details] : [this.main];
  }

  flip() {
    this.unfold(!this.open);
    if (this.open) {
      this.details ??= this.build();
      this.ask();
    }
    this.table.arrange();
  }

  build() {
    this.panel = node("div", { class: "dw-panel" });
    this.done = waitIn(this.panel);
    const id = freshId();
    const details = node("tr", { class: "dw-details", id }, node("td", { colspan: COLUMNS.length }, this.panel));
    this.toggle.setAttribute("aria-controls", id);
    onEscape(details, () => {
      this.flip();
      this.toggle.focus();
    });
    return details;
  }

  ask() {
    this.send({ op: "details", name: this.name });
  }

  answer(details) {
    if (!this.open) return;
    this.done();
    if (!details) {
      this.drawn = false;
      this.panel.replaceChildren(muted("This wrapper is gone."));
      return;
    }
    if (!this.drawn) this.draw();
    this.facts.replaceChildren(...details.facts.map(([name, value]) => fact(name, value)));
    // Columns that a narrow cell has no room for.
    const { calls, hits, eager, compiles, recompiles, seconds, run, reason } = this.data;
    const counts = `${calls} calls, ${hits} hits, ${eager} eager, ${compiles} compiles, ${recompiles} again`;
    this.facts.append(fact("counts", `${counts}, ${duration(seconds)} compiling, ${duration(run)} run`, "dw-narrow"));
    if (reason) this.facts.append(fact("last reason", arrow(reason), "dw-narrow"));
    const longest = Math.max(1e-9, ...details.entries.map((entry) => entry.compile));
    this.list.replaceChildren(...details.entries.flatMap((entry) => this.entryRows(entry, longest)));
    this.entryTable.hidden = !details.entries.length;
    this.empty.hidden = details.entries.length > 0;
  }

  draw() {
    this.drawn = true;
    this.facts = node("dl", { class: "dw-facts" });
    this.said = node("span", { class: "dw-said", role: "status" });
    const act = (text, title, op) => {
      const ask = () => {
        setText(this.said, "");
        this.send({ op, name: this.name });
      };
      return button(text, ask, { title, "aria-label": `${text} ${this.data.target}`, class: `dw-button dw-act-${op}` });
    };
    this.list = node("tbody");
    const heads = ["Entry", "Why", "Asked for in", "Hits", "Run time", "Compile time"];
    this.entryTable = node(
      "table",
      { class: "dw-entry-table" },
      node("caption", { class: "dw-hidden" }, "Cache entries, oldest first"),
      node(
        "thead",
        {},
        node("tr", {}, ...heads.map((title, i) => node("th", { scope: "col", class: i > 2 ? "dw-number" : "" }, title))),
      ),
      this.list,
    );
    this.empty = muted("No cache entries.");
    this.panel.replaceChildren(
      node(
        "div",
        { class: "dw-panel-head" },
        this.facts,
        node(
          "div",
          { class: "dw-actions" },
          this.said,
          ...this.table.actions.map((op) => act(...ACTIONS[op], op)),
        ),
      ),
      this.entryTable,
      this.empty,
    );
  }

  entryRows(entry, longest) {
    const why = entry.reason
      ? node("td", { class: "dw-why" }, arrow(entry.reason))
      : node("td", { class: "dw-muted" }, "first compilation");
    const known = this.panels.get(entry.number);
    const id = node("th", { class: "dw-id", scope: "row", title: entry.frame });
    if (!entry.number) id.append(entry.id);
    else {
      // Redrawn at each answer; the panel stays, and with it what was opened in it.
      const opener = this.openers?.get(entry.number) ?? this.opener(entry);
      opener.setAttribute("aria-expanded", String(Boolean(known)));
      id.append(opener);
    }
    const made = [
      node(
        "tr",
        {},
        id,
        why,
        node("td", { class: "dw-place" }, entry.place),
        node("td", { class: "dw-number" }, COUNT.format(entry.hits)),
        node("td", { class: "dw-number" }, duration(entry.run)),
        node("td", { class: "dw-number dw-time" }, bar([entry.compile / longest, "compile"]), duration(entry.compile)),
      ),
    ];
    if (known) made.push(known.row);
    return made;
  }

  opener(entry) {
    this.openers ??= new Map();
    const made = node(
      "button",
      { type: "button", class: "dw-opener", "aria-label": `Open entry ${entry.id}`, onclick: () => this.openEntry(entry.number) },
      node("span", { class: "dw-chevron", "aria-hidden": "true" }),
      entry.id,
    );
    this.openers.set(entry.number, made);
    return made;
  }

  openEntry(number) {
    const opener = this.openers.get(number);
    const known = this.panels.get(number);
    opener.setAttribute("aria-expanded", String(!known));
    if (known) {
      known.row.remove();
      this.panels.delete(number);
      return;
    }
    const panel = new EntryPanel(this.send, number);
    const row = node("tr", { class: "dw-entry-row" }, node("td", { colspan: 6 }, panel.element));
    onEscape(row, () => {
      this.openEntry(number);
      opener.focus();
    });
    this.panels.set(number, { panel, row });
    opener.closest("tr").after(row);
  }

  answerEntry(message) {
    this.panels.get(message.number)?.panel.answer(message);
  }

  say(text) {
    if (this.said) setText(this.said, text);
  }
}

function fact(name, value, style) {
  return node("div", { class: style }, node("dt", {}, name), node("dd", {}, value));
}
