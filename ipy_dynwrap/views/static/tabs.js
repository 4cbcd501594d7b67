import { freshId, node } from "./dom.js";

/** Tabs as assistive technology knows them: arrows, Home and End move, and only the chosen one is in the tab order. */
export class Tabs {
  /** `pages` are `{ title, content }`; `shown(index)` is called when one is chosen. */
  constructor(label, pages, shown = () => {}) {
    this.shown = shown;
    this.tabs = pages.map(({ title }, index) =>
      node("button", { type: "button", role: "tab", id: freshId(), onclick: () => this.choose(index) }, title),
    );
    this.panels = pages.map(({ content }, index) =>
      node("div", { role: "tabpanel", id: freshId(), "aria-labelledby": this.tabs[index].id }, content),
    );
    this.tabs.forEach((tab, index) => tab.setAttribute("aria-controls", this.panels[index].id));
    this.list = node(
      "div",
      { role: "tablist", class: "dw-tabs", "aria-label": label, onkeydown: (event) => this.key(event) },
      ...this.tabs,
    );
    this.element = node("div", { class: "dw-tabbed" }, this.list, ...this.panels);
    this.choose(0);
  }

  choose(chosen) {
    this.chosen = chosen;
    this.tabs.forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(index === chosen));
      tab.tabIndex = index === chosen ? 0 : -1;
      this.panels[index].hidden = index !== chosen;
    });
    this.shown(chosen);
  }

  key(event) {
    const last = this.tabs.length - 1;
    const moves = { ArrowRight: this.chosen + 1, ArrowLeft: this.chosen - 1, Home: 0, End: last };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const to = moves[event.key];
    this.choose(to > last ? 0 : to < 0 ? last : to);
    this.tabs[this.chosen].focus();
  }
}
