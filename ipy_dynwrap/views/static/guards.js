import { COUNT, muted, node, setText } from "./dom.js";

// A model of a few hundred modules has some thousand guards.
const FOUND_AT_ONCE = 200;
const GUARDS_OPEN_UP_TO = 40;

function flat(branches) {
  return branches.flatMap((branch) => [...branch.guards, ...flat(branch.children)]);
}

/** Guards as a tree by what they look at, with a search. */
export class GuardTree {
  constructor(branches) {
    this.all = flat(branches);
    this.search = node("input", {
      type: "search",
      class: "dw-filter",
      placeholder: "Search guards",
      "aria-label": "Search guards by source, words or line",
      oninput: () => this.find(),
    });
    const torch = node("input", {
      type: "checkbox",
      onchange: () => this.element.classList.toggle("dw-torch", torch.checked),
    });
    this.note = node("span", { class: "dw-said", role: "status" });
    this.tree = node("div", { class: "dw-tree" }, ...branches.map((branch) => this.branch(branch)));
    this.found = node("div", { class: "dw-tree" });
    this.element = node(
      "div",
      { class: "dw-guards" },
      node("div", { class: "dw-tools" }, this.search, node("label", {}, torch, " torch's form"), this.note),
      this.tree,
      this.found,
    );
    if (!this.all.length) this.element.replaceChildren(muted("No guards are kept of this entry."));
    else this.find();
  }

  branch(branch) {
    const inside = flat([branch]).length;
    const summary = node("summary", {}, node("code", {}, branch.name));
    if (inside > 1) summary.append(node("span", { class: "dw-muted" }, ` ${COUNT.format(inside)}`));
    const made = node("details", {}, summary);
    let drawn = false;
    const draw = () => {
      if (drawn) return;
      drawn = true;
      made.append(...branch.guards.map(guardLine), ...branch.children.map((child) => this.branch(child)));
    };
    // What is not unfolded costs nothing.
    made.addEventListener("toggle", () => made.open && draw());
    if (this.all.length <= GUARDS_OPEN_UP_TO || inside === 1) {
      draw();
      made.open = true;
    }
    return made;
  }

  find() {
    const wanted = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.tree.hidden = wanted.length > 0;
    this.found.hidden = !wanted.length;
    if (!wanted.length) {
      setText(this.note, `${COUNT.format(this.all.length)} ${this.all.length === 1 ? "guard" : "guards"}`);
      return;
    }
    const matching = this.all.filter((guard) => {
      const text = [guard.source, guard.kind, guard.words, guard.place, ...guard.code].join(" ").toLowerCase();
      return wanted.every((word) => text.includes(word));
    });
    const shown = matching.slice(0, FOUND_AT_ONCE);
    this.found.replaceChildren(...shown.map(guardLine));
    const cut = shown.length < matching.length ? `, the first ${shown.length} are shown` : "";
    setText(this.note, `${COUNT.format(matching.length)} of ${COUNT.format(this.all.length)} match${cut}`);
  }
}

function guardLine(guard) {
  const made = node("div", { class: "dw-guard" }, node("span", { class: "dw-guard-words" }, guard.words || guard.kind));
  if (guard.place) made.append(node("span", { class: "dw-guard-place" }, guard.place));
  const code = [guard.source, guard.kind, ...guard.code].filter(Boolean);
  made.append(node("pre", { class: "dw-guard-code" }, code.join("\n")));
  return made;
}
