// Makes untrusted text safe to show. Characters that are hidden, or that change how other
// text is shown, are escaped and never dropped. It does the same as the Go package plain.
const hidden = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}\p{Default_Ignorable_Code_Point}\u2800]/gu;

const hex = (n, digits) => n.toString(16).padStart(digits, '0');

function escaped(c) {
  const n = c.codePointAt(0);
  if (n < 0x80) return '\\x' + hex(n, 2);
  return n <= 0xffff ? '\\u' + hex(n, 4) : '\\U' + hex(n, 8);
}

export const visible = (value) => String(value).replace(hidden, escaped);
