// Colours of code: highlight.js with the languages that turn up, and its marks as elements that passed DOMPurify.
import hljs from '../lib/hljs/core.js';
import bash from '../lib/hljs/bash.js';
import css from '../lib/hljs/css.js';
import diff from '../lib/hljs/diff.js';
import dockerfile from '../lib/hljs/dockerfile.js';
import go from '../lib/hljs/go.js';
import ini from '../lib/hljs/ini.js';
import java from '../lib/hljs/java.js';
import javascript from '../lib/hljs/javascript.js';
import json from '../lib/hljs/json.js';
import markdown from '../lib/hljs/markdown.js';
import python from '../lib/hljs/python.js';
import rust from '../lib/hljs/rust.js';
import sql from '../lib/hljs/sql.js';
import typescript from '../lib/hljs/typescript.js';
import xml from '../lib/hljs/xml.js';
import yaml from '../lib/hljs/yaml.js';
import '../lib/purify.js';

const known = { bash, css, diff, dockerfile, go, ini, java, javascript, json, markdown, python, rust, sql, typescript, xml, yaml };
for (const [name, grammar] of Object.entries(known)) hljs.registerLanguage(name, grammar);

const longest = 40 << 10;
const rules = { ALLOWED_TAGS: ['span'], ALLOWED_ATTR: ['class'], ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true };

// highlight colours an element's text where the language is known and the text is not huge.
export function highlight(code, lang) {
  const text = code.textContent;
  if (!lang || text.length > longest || !hljs.getLanguage(lang)) return;
  let fragment;
  try {
    fragment = globalThis.DOMPurify.sanitize(hljs.highlight(text, { language: lang, ignoreIllegals: true }).value, rules);
  } catch {
    return;
  }
  if (fragment.textContent === text) code.replaceChildren(fragment);
}
