/* What all parts of the inspector draw with.
 *
 * Everything that comes from the user is set with textContent, never as markup.
 */

export const COUNT = new Intl.NumberFormat("en-US");

/** How long to wait before saying that the kernel does not answer, in milliseconds. */
export const ANSWER_MS = 4000;

let lastId = 0;

export function freshId() {
  return `dynwrap-${++lastId}`;
}

/** Make an element: `node("td", { class: "a" }, "text", child)`. */
export function node(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== undefined));
  return made;
}

export function button(text, onclick, attributes = {}) {
  return node("button", { type: "button", class: "dw-button", onclick, ...attributes }, text);
}

export function muted(text, style = "") {
  return node("p", { class: `dw-muted ${style}` }, text);
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A wall time with about two digits that matter. */
export function duration(seconds) {
  if (seconds >= 59.5) return `${Math.floor(Math.round(seconds) / 60)} min ${Math.round(seconds) % 60} s`;
  if (seconds >= 9.95) return `${seconds.toFixed(0)} s`;
  if (seconds >= 0.9995) return `${seconds.toFixed(1)} s`;
  if (seconds >= 0.00995) return `${(seconds * 1e3).toFixed(0)} ms`;
  if (seconds >= 0.0009995) return `${(seconds * 1e3).toFixed(1)} ms`;
  return seconds > 0 ? `${(seconds * 1e6).toFixed(0)} µs` : "0 s";
}

export function arrow(text) {
  return text.replaceAll(" -> ", " → ");
}

/** A bar of parts, each a share of 1 and a kind; the figures beside it say the same. */
export function bar(...parts) {
  const made = node("span", { class: "dw-bar", "aria-hidden": "true" });
  for (const [share, kind] of parts) {
    if (!(share > 0)) continue;
    const part = node("span", { "data-kind": kind });
    part.style.width = `${Math.min(100, 100 * share)}%`;
    made.append(part);
  }
  return made;
}

/** Ask the kernel, and say so in `place` if it does not answer. Returns what ends the waiting. */
export function waitIn(place, text = "Asking the kernel…") {
  place.replaceChildren(muted(text));
  const late = setTimeout(
    () => place.replaceChildren(muted("No answer: the kernel is busy, or this notebook has none.")),
    ANSWER_MS,
  );
  return () => clearTimeout(late);
}

/** Put `text` on the clipboard, also where the page may not use the clipboard's own interface. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = node("textarea", { class: "dw-hidden", readonly: "" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand?.("copy") ?? false;
    area.remove();
    return done;
  }
}

/** Call `close` when Escape is pressed in `element`, unless something inside of it has taken the key. */
export function onEscape(element, close) {
  element.addEventListener("keydown", (event) => {
    // In a field with text, the key empties the field.
    if (event.key !== "Escape" || event.defaultPrevented || event.target.value) return;
    event.preventDefault();
    close();
  });
}
