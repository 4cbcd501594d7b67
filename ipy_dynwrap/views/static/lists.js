import { COUNT, arrow, bar, duration, muted, node, setText, waitIn } from "./dom.js";

/** A list that the kernel is asked for when it is looked at, and again when there is something new. */
class Fetched {
  constructor(send, op) {
    this.send = send;
    this.op = op;
    this.element = node("div", { class: `dw-list dw-list-${op}` });
    this.visible = false;
  }

  /** Say whether it is looked at. */
  show(visible) {
    this.visible = visible;
    if (visible) this.ask();
  }

  /** Ask; one request at a time, and once more if something has changed meanwhile. */
  ask() {
    if (!this.visible) return;
    if (this.asked) {
      this.again = true;
      return;
    }
    this.asked = true;
    if (!this.drawn) this.done = waitIn(this.element);
    this.send({ op: this.op });
  }

  answer(message) {
    this.asked = false;
    this.done?.();
    this.drawn = true;
    this.element.replaceChildren(...this.draw(message));
    if (this.again) {
      this.again = false;
      this.ask();
    }
  }
}

/** Why things compiled again, or ran eager. */
export class WhyList extends Fetched {
  constructor(send, open) {
    super(send, "why");
    this.open = open;
  }

  draw({ whys, more }) {
    if (!whys.length) return [muted("Nothing has compiled again, no graph broke, and nothing ran eager.")];
    const items = whys.map((why) => {
      const target = node("button", { type: "button", class: "dw-link", onclick: () => this.open(why.wrapper) }, why.target);
      const made = node(
        "li",
        { class: "dw-item" },
        node("span", { class: "dw-item-place" }, why.place || "–"),
        node("div", {}, target, " ", node("span", { class: "dw-badge", "data-state": why.outcome }, why.outcome)),
      );
      if (why.times > 1) made.lastChild.append(node("span", { class: "dw-muted" }, ` ${COUNT.format(why.times)} times`));
      made.lastChild.append(node("div", { class: "dw-because" }, arrow(why.reason)));
      for (const other of why.others) made.lastChild.append(node("div", { class: "dw-muted" }, `or: ${arrow(other)}`));
      if (why.advice) made.lastChild.append(node("div", { class: "dw-advice" }, why.advice));
      return made;
    });
    const list = node("ol", { class: "dw-items", "aria-label": "Recompilations, the newest first" }, ...items);
    return more ? [list, muted(`and ${COUNT.format(more)} more`)] : [list];
  }
}

/** The cells as they ran. */
export class Timeline extends Fetched {
  constructor(send) {
    super(send, "timeline");
  }

  draw({ runs, more }) {
    if (!runs.length) return [muted("No cell has run since the extension was loaded.")];
    const longest = Math.max(1e-9, ...runs.map((run) => run.seconds));
    const legend = node(
      "p",
      { class: "dw-legend dw-muted", "aria-hidden": "true" },
      ...[
        ["compile", "compiling"],
        ["run", "in compiled code"],
        ["rest", "anything else"],
      ].map(([kind, text]) => node("span", {}, node("i", { "data-kind": kind }), ` ${text}`)),
    );
    const items = runs.map((run) => {
      const parts = [`${duration(run.seconds)}`];
      if (run.compile) parts.push(`${duration(run.compile)} compiling`);
      if (run.run) parts.push(`${duration(run.run)} in compiled code`);
      const rest = run.seconds - run.compile - run.run;
      const made = node(
        "li",
        { class: "dw-item", "data-failed": String(run.failed) },
        node("span", { class: "dw-item-place", title: new Date(1000 * run.at).toLocaleTimeString() }, run.label),
        node(
          "div",
          {},
          bar([run.compile / longest, "compile"], [run.run / longest, "run"], [rest / longest, "rest"]),
          node("div", {}, parts.join(" · "), node("span", { class: "dw-muted" }, ` · ${run.text}`)),
        ),
      );
      if (run.compiled.length) {
        made.lastChild.append(node("div", { class: "dw-because" }, `compiled ${run.compiled.join(", ")}`));
      }
      return made;
    });
    const list = node("ol", { class: "dw-items", "aria-label": "Cells as they ran, the newest first" }, ...items);
    return more ? [legend, list, muted(`and ${COUNT.format(more)} older ones`)] : [legend, list];
  }
}

/** What compiles right now, and for how long. */
export class LiveLine {
  constructor() {
    this.busy = node("span", { role: "status" });
    this.seconds = node("span", { class: "dw-seconds", "aria-hidden": "true" });
    const pulse = node("span", { class: "dw-pulse", "aria-hidden": "true" });
    this.element = node("div", { class: "dw-live" }, pulse, this.busy, this.seconds);
  }

  update(compiling) {
    this.compiling = compiling;
    this.since = performance.now();
    setText(this.busy, compiling.length ? arrow(compiling[0].text) : "");
    this.element.classList.toggle("dw-active", compiling.length > 0);
    this.stop();
    if (compiling.length) this.clock = setInterval(() => this.tick(), 100);
    this.tick();
  }

  tick() {
    const [first, ...others] = this.compiling;
    const seconds = first ? first.seconds + (performance.now() - this.since) / 1000 : 0;
    const more = others.length ? ` · and ${others.length} more` : "";
    setText(this.seconds, first ? `· ${seconds.toFixed(1)} s${more}` : "");
  }

  stop() {
    clearInterval(this.clock);
  }
}
