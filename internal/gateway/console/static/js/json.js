// JSON and YAML for reading, coloured.
import { html, Component } from './html.js';
import { codeBlock } from './markdown.js';
import { pretty, visible } from './format.js';

// The longest arguments that an approval shows, in characters; what is cut off is counted.
const mostExact = 200000;

// Code is a block of code that changes as a whole or not at all.
export class Code extends Component {
  shouldComponentUpdate(next) {
    if (next.text !== this.props.text || next.lang !== this.props.lang) this.draw(next);
    return false;
  }

  componentDidMount() {
    this.draw(this.props);
  }

  draw({ text, lang }) {
    this.base.replaceChildren(codeBlock(text, lang).root);
  }

  render() {
    return html`<div class="codebox"></div>`;
  }
}

// Json shows a value; exact: in full and with what hides in it, for those who decide by it.
export function Json({ value, exact }) {
  if (value === undefined || value === null) return html`<p class="muted">none</p>`;
  const text = exact ? visible(pretty(value, mostExact)) : pretty(value);
  return html`<${Code} text=${text} lang=${typeof value === 'string' ? '' : 'json'} />`;
}
