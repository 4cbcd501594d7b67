/** Rows and a model as the kernel makes them (`payload.py`, `widget.py`). */

export const MARKUP = "<img src=x onerror='window.hacked = 1'>";

export function row(number, changes = {}) {
  return {
    name: `Net#${number}`,
    family: "",
    target: "Net.forward",
    kind: "module",
    options: "inductor",
    key: [["self.k", String(number)]],
    more: 0,
    state: "compiled",
    entries: 2,
    limit: 8,
    calls: 10 * number,
    hits: number,
    eager: 0,
    compiles: 2,
    recompiles: 1,
    seconds: 0.25,
    run: 0.5,
    reason: "x.shape[0] 4 -> 5",
    news: "",
    ...changes,
  };
}

export function family(members, changes = {}) {
  return row(0, {
    name: "family:Net#0",
    key: [],
    wrappers: members,
    fields: [["self.k", members]],
    alone: "torch.compile alone would keep 12 entries",
    retired: [],
    reason: "",
    ...changes,
  });
}

export function members(number, changes = {}) {
  return Array.from({ length: number }, (_, index) => row(index, { family: "family:Net#0", ...changes }));
}

export function state(rows, changes = {}) {
  return {
    sums: { wrappers: rows.length, compiles: 2, recompiles: 1, eager: 0, breaks: 0, seconds: 1.5, calls: 3 },
    rows,
    total: rows.length,
    revision: 1,
    cell: 3,
    compiling: [],
    ...changes,
  };
}

/** What anywidget gives to `render`; keeps what the view sends. */
export class Model {
  constructor(first) {
    this.traits = { state: first, unkeyed: { title: "Not part of a key", rows: [["a size", "it is"]] }, actions: ["reset", "skip"] };
    this.heard = {};
    this.sent = [];
  }

  get(name) {
    return this.traits[name];
  }

  on(event, callback) {
    this.heard[event] = callback;
  }

  off(event) {
    delete this.heard[event];
  }

  send(message) {
    this.sent.push(message);
  }

  change(next) {
    this.traits.state = next;
    this.heard["change:state"]();
  }

  answer(message) {
    this.heard["msg:custom"](message);
  }

  asked(op) {
    return this.sent.filter((message) => message.op === op);
  }
}

export function texts(element, selector) {
  return [...element.querySelectorAll(selector)].map((each) => each.textContent);
}

export function press(element, key) {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
  element.dispatchEvent(event);
  return event;
}
