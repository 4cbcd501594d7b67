import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    files: ["ipy_dynwrap/views/static/*.js"],
    languageOptions: { globals: globals.browser },
    rules: {
      // Text of the user's may never become markup.
      "no-restricted-properties": [
        "error",
        ...["innerHTML", "outerHTML", "insertAdjacentHTML", "write"].map((property) => ({ property })),
      ],
      "no-var": "error",
      "prefer-const": "error",
      eqeqeq: "error",
    },
  },
  { files: ["tests/js/*.js"], languageOptions: { globals: { ...globals.browser, ...globals.node } } },
];
