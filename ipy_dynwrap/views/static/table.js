import { COUNT, button, node, setText } from "./dom.js";
import { COLUMNS, FamilyRow, WrapperRow } from "./rows.js";

const ROWS_AT_ONCE = 60;
// A family with more wrappers is shown folded at first.
const FAMILY_OPEN_UP_TO = 12;

const ORDER = new Intl.Collator("en", { numeric: true });

/** What a filter looks through. */
function haystack(row) {
  const key = row.key.map(([field, value]) => `${field} = ${value}`).join(" ");
  return `${row.target} ${row.kind} ${row.options} ${row.name} ${row.state} ${key} ${row.reason} ${row.news}`.toLowerCase();
}

/** The wrappers, grouped by family or not. Rows are made when they are first shown, and then kept and changed in place,
 * so that an update loses neither focus nor an open row nor the reader's place. */
export class Table {
  constructor(send, actions) {
    this.send = send;
    this.actions = actions;
    this.data = [];
    this.rows = new Map();
    this.texts = new WeakMap();
    this.folded = new Map();
    this.sort = { id: null, down: false };
    this.shown = ROWS_AT_ONCE;
    this.build();
  }

  build() {
    this.filter = node("input", {
      type: "search",
      class: "dw-filter",
      placeholder: "Filter",
      "aria-label": "Filter by name, state, key or reason",
      oninput: () => this.rearrange(),
    });
    this.group = node("input", { type: "checkbox", onchange: () => this.rearrange() });
    this.group.checked = true;
    this.grouping = node("label", { class: "dw-grouping" }, this.group, " Group families");
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
    this.note = node("p", { class: "dw-muted dw-note", role: "status" });
    this.more = button("", () => this.showMore(), { class: "dw-button dw-more" });
    this.element = node(
      "div",
      {},
      node("div", { class: "dw-tools" }, this.filter, this.grouping),
      node("div", { class: "dw-scroll" }, this.table),
      this.note,
      this.more,
    );
  }

  /** Show `data`, rows in the order of creation; `missing` more are known to the kernel. */
  update(data, missing) {
    this.data = data;
    this.missing = missing;
    const names = new Set(data.map((row) => row.name));
    for (const name of this.rows.keys()) if (!names.has(name)) this.rows.delete(name);
    this.grouping.hidden = !data.some((row) => row.wrappers);
    this.arrange();
  }

  rearrange() {
    this.shown = ROWS_AT_ONCE;
    this.arrange();
  }

  /** Put the rows that match into their order, and touch only what is out of place. */
  arrange() {
    const wanted = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wrappers = this.data.filter((row) => !row.wrappers);
    const matching = wanted.length ? wrappers.filter((row) => this.matches(row, wanted)) : wrappers;
    const items = this.group.checked ? this.grouped(matching, wanted.length > 0) : this.sorted(matching);
    const elements = items.slice(0, this.shown).flatMap((item) => this.elements(item));
    const keep = new Set(elements);
    for (const element of [...this.body.children]) if (!keep.has(element)) element.remove();
    let place = this.body.firstChild;
    for (const element of elements) {
      if (element === place) place = place.nextSibling;
      else this.body.insertBefore(element, place);
    }
    this.table.hidden = !items.length;
    const left = Math.max(0, items.length - this.shown);
    this.more.hidden = !left;
    setText(this.more, `Show ${Math.min(left, ROWS_AT_ONCE)} more of ${COUNT.format(left)}`);
    setText(this.note, this.said(wrappers.length, matching.length, wanted.length > 0));
  }

  said(all, matching, filtered) {
    const notes = [];
    if (!all && !this.missing) notes.push("Nothing has been compiled yet. Put %%compile at the top of a cell, and run it.");
    else if (!matching) notes.push("No wrapper matches the filter.");
    else if (filtered) notes.push(`${COUNT.format(matching)} of ${COUNT.format(all)} match.`);
    if (this.missing) notes.push(`${COUNT.format(this.missing)} more rows are in the kernel, which has not answered yet.`);
    return notes.join(" ");
  }

  matches(row, wanted) {
    let text = this.texts.get(row);
    if (text === undefined) this.texts.set(row, (text = haystack(row)));
    return wanted.every((word) => text.includes(word));
  }

  /** Families among single wrappers; the wrappers of one that is unfolded follow it. */
  grouped(matching, filtered) {
    const families = this.data.filter((row) => row.wrappers);
    const members = new Map(families.map((row) => [row.name, []]));
    // A family's row may be among those that the kernel has not sent yet.
    const single = new Set(matching.filter((row) => !members.get(row.family)?.push(row)));
    const top = this.data.filter((row) => (row.wrappers ? members.get(row.name).length : single.has(row)));
    return this.sorted(top).flatMap((row) => {
      if (!row.wrappers) return [row];
      const open = filtered || !(this.folded.get(row.name) ?? row.wrappers > FAMILY_OPEN_UP_TO);
      this.row(row).unfold(open);
      return open ? [row, ...this.sorted(members.get(row.name))] : [row];
    });
  }

  row(item) {
    let row = this.rows.get(item.name);
    if (!row) this.rows.set(item.name, (row = new (item.wrappers ? FamilyRow : WrapperRow)(item.name, this)));
    return row;
  }

  elements(item) {
    const row = this.row(item);
    const family = this.group.checked && item.family ? this.rows.get(item.family) : undefined;
    row.update(item, family);
    return row.elements();
  }

  flipFamily(row) {
    this.folded.set(row.name, row.open);
    this.arrange();
  }

  sorted(rows) {
    const { id, down } = this.sort;
    if (!id) return rows;
    const sign = down ? -1 : 1;
    // The sort is stable: what is equal stays in the order of creation.
    return [...rows].sort((a, b) => {
      const [left, right] = [a[id], b[id]];
      return sign * (typeof left === "number" ? left - right : ORDER.compare(left, right));
    });
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
    this.rearrange();
  }

  showMore() {
    this.shown += ROWS_AT_ONCE;
    this.arrange();
  }

  /** Show the wrapper of a name, unfolded. */
  open(name) {
    const index = this.data.findIndex((row) => row.name === name);
    if (index < 0) return;
    this.filter.value = "";
    if (this.data[index].family) this.folded.set(this.data[index].family, false);
    this.shown = Math.max(this.shown, this.data.length);
    this.sort = { id: null, down: false };
    this.arrange();
    const row = this.rows.get(name);
    if (!row.open) row.flip();
    row.toggle.focus();
  }

  answer(message) {
    const row = this.rows.get(message.name);
    if (message.op === "details") row?.answer(message.details);
    else if (message.op === "said") row?.say(message.text);
    else for (const each of this.rows.values()) each.answerEntry?.(message);
  }
}
