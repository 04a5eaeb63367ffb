// JSON and YAML for reading, coloured.
import { html, Component } from './html.js';
import { codeBlock } from './markdown.js';
import { pretty } from './format.js';

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

export function Json({ value }) {
  if (value === undefined || value === null) return html`<p class="muted">none</p>`;
  const text = pretty(value);
  return html`<${Code} text=${text} lang=${typeof value === 'string' ? '' : 'json'} />`;
}
