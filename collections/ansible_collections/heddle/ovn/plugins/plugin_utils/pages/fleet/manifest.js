// SPDX-License-Identifier: GPL-3.0-or-later
// Writes an object as YAML, as kubectl prints one.

// Text that YAML 1.1 and 1.2 read as the same text without quotes (YAML 1.2.2, 7.3.3; YAML 1.1, 10.1).
const PLAIN = /^[A-Za-z_/][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*$/;
const WORDS = /^(y|n|yes|no|on|off|true|false|null|~)$/i;

// Printable in JSON, but not in YAML, or a line break there (YAML 1.2.2, 5.1; YAML 1.1, 5.4).
const ESCAPED = /[\u007f-\u009f\u2028\u2029\ufeff]/g;

function scalar(value) {
  if (typeof value === "string" && PLAIN.test(value) && !WORDS.test(value)) return value;
  return JSON.stringify(value).replace(ESCAPED, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function isEmpty(value) {
  return value === null || typeof value !== "object" || Object.keys(value).length === 0;
}

function yamlLines(value, indent) {
  const space = " ".repeat(indent);
  if (Array.isArray(value)) {
    return value.flatMap((one) => {
      if (isEmpty(one)) return [`${space}- ${scalar(one)}`];
      const [first, ...rest] = yamlLines(one, indent + 2);
      return [`${space}- ${first.slice(indent + 2)}`, ...rest];
    });
  }
  return Object.entries(value).flatMap(([key, one]) => {
    if (isEmpty(one)) return [`${space}${scalar(key)}: ${scalar(one)}`];
    return [`${space}${scalar(key)}:`, ...yamlLines(one, indent + (Array.isArray(one) ? 0 : 2))];
  });
}

function yaml(value) {
  return isEmpty(value) ? `${scalar(value)}\n` : `${yamlLines(value, 0).join("\n")}\n`;
}
