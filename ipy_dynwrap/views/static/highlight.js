/* A small highlighter: enough to read generated Python and C++ by. */

const PYTHON_WORDS =
  "and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield False None True";
const CPP_WORDS =
  "alignas auto bool break case char class const constexpr continue default do double else enum extern false float for if inline int int64_t int32_t long namespace new nullptr operator private public return short signed sizeof static struct switch template this true typedef typename uint8_t unsigned using void volatile while";

function words(list) {
  return `(?<word>\\b(?:${list.replaceAll(" ", "|")})\\b)`;
}

const NUMBER = "(?<number>\\b\\d[\\w.]*)";
const CALL = "(?<call>\\b[A-Za-z_]\\w*(?=\\())";
const LINE_STRING = String.raw`"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?`;

const LANGUAGES = {
  python: [
    "(?<comment>#.*)",
    String.raw`(?<string>[rbfuRBFU]{0,2}(?:"""(?:\\[^]|[^\\])*?(?:"""|$(?![^]))|'''(?:\\[^]|[^\\])*?(?:'''|$(?![^]))|${LINE_STRING}))`,
    "(?<mark>^[ \\t]*@[\\w.]+)",
    words(PYTHON_WORDS),
    NUMBER,
    CALL,
  ],
  cpp: [
    String.raw`(?<comment>//.*|/\*[^]*?(?:\*/|$(?![^])))`,
    `(?<string>${LINE_STRING})`,
    "(?<mark>^[ \\t]*#.*)",
    words(CPP_WORDS),
    NUMBER,
    CALL,
  ],
};

/** Return the lines of `text`, each a list of `[kind, text]`; the kind is "" for what has none. */
export function highlight(text, language) {
  const lines = [[]];
  const add = (kind, piece) => {
    piece.split("\n").forEach((part, index) => {
      if (index) lines.push([]);
      if (part) lines.at(-1).push([kind, part]);
    });
  };
  const source = LANGUAGES[language];
  if (!source) add("", text);
  else {
    let end = 0;
    for (const match of text.matchAll(new RegExp(source.join("|"), "gm"))) {
      add("", text.slice(end, match.index));
      add(Object.keys(match.groups).find((kind) => match.groups[kind] !== undefined), match[0]);
      end = match.index + match[0].length;
    }
    add("", text.slice(end));
  }
  return lines;
}
