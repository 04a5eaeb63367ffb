// JSON of others, whose numbers stay what they are: who approves 12345678901234567890 must neither read nor send 12345678901234567000.

// parse is JSON.parse; a number that a float64 does not hold is kept as it is written, where the browser can (JSON.rawJSON).
export function parse(text) {
  return JSON.parse(text, (_, v, at) => (typeof v === 'number' && at?.source !== undefined && JSON.rawJSON && lost(v, at.source) ? JSON.rawJSON(at.source) : v));
}

const lost = (v, source) => !Number.isFinite(v) || digits(String(v)) !== digits(source);
const digits = (number) => number.replace(/e.*/i, '').replace(/[-.]/g, '').replace(/^0+|0+$/g, '');

// raw is the text of a number that was kept as it is written; undefined of every other value.
export const raw = (v) => (JSON.isRawJSON?.(v) ? v.rawJSON : undefined);
