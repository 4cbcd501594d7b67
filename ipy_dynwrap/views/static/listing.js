import { COUNT, button, copy, node, setText } from "./dom.js";
import { highlight } from "./highlight.js";

// A page with ten thousand lines at once is slow to lay out.
const LINES_AT_ONCE = 250;

/** A text with line numbers, marks and a button that copies it. */
export class CodeListing {
  constructor({ title, language, text, first, marks }) {
    this.first = first;
    this.marks = marks;
    this.lines = highlight(text.replace(/\n$/, ""), language);
    this.said = node("span", { class: "dw-said", role: "status" });
    const copyButton = button(
      "Copy",
      async () => setText(this.said, (await copy(text)) ? "Copied." : "The browser does not let this page copy."),
      { "aria-label": `Copy ${title}` },
    );
    this.code = node("div", { class: "dw-lines" });
    this.more = button("", () => this.show());
    this.element = node(
      "div",
      { class: "dw-listing" },
      node("div", { class: "dw-listing-head" }, this.said, copyButton),
      // In the tab order, so that the keyboard can scroll it.
      node("div", { class: "dw-code", role: "region", "aria-label": title, tabindex: "0" }, this.code),
      this.more,
    );
    this.shown = 0;
    this.show();
  }

  show() {
    const to = Math.min(this.lines.length, this.shown + LINES_AT_ONCE);
    const made = document.createDocumentFragment();
    for (; this.shown < to; this.shown++) made.append(...this.line(this.shown));
    this.code.append(made);
    const left = this.lines.length - to;
    this.more.hidden = !left;
    setText(this.more, `Show ${COUNT.format(Math.min(left, LINES_AT_ONCE))} more of ${COUNT.format(left)} lines`);
  }

  line(index) {
    const number = this.first + index;
    const why = this.marks[number];
    const pieces = this.lines[index].map(([kind, text]) => (kind ? node("span", { class: `dw-token-${kind}` }, text) : text));
    const made = [
      node(
        "div",
        { class: why === undefined ? "dw-line" : "dw-line dw-marked" },
        node("span", { class: "dw-line-number", "aria-hidden": "true" }, String(number)),
        node("code", {}, ...pieces),
      ),
    ];
    if (why !== undefined) made.push(node("div", { class: "dw-mark-note" }, why));
    return made;
  }
}
