// Stacked bars by day, as plain SVG at the size that there is. The table below a chart says the same in numbers.
import { html, useEffect, useRef, useState } from './html.js';
import { visible } from './format.js';

const height = 240;
const margin = { top: 12, right: 20, bottom: 24, left: 56 };

// ticksOf returns round numbers from 0 to at least a maximum, three to six of them.
export function ticksOf(max) {
  if (!(max > 0)) return [0, 1];
  const power = 10 ** Math.floor(Math.log10(max));
  const step = [0.2, 0.5, 1, 2].find((s) => max / (s * power) <= 5) * power;
  return Array.from({ length: Math.ceil(max / step - 1e-9) + 1 }, (_, i) => Number((i * step).toPrecision(12)));
}

function useWidth(ref) {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    let frame = 0; // drawing at once would change sizes while they are told
    const grown = new ResizeObserver(([e]) => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => setWidth(Math.floor(e.contentRect.width)));
    });
    grown.observe(ref.current);
    return () => {
      cancelAnimationFrame(frame);
      grown.disconnect();
    };
  }, []);
  return width;
}

export function Chart({ days, series, write, label }) {
  const box = useRef();
  const width = useWidth(box);
  const total = (i) => series.reduce((n, s) => n + s.values[i], 0);
  const ticks = ticksOf(Math.max(...days.map((_, i) => total(i))));
  const inner = { width: width - margin.left - margin.right, height: height - margin.top - margin.bottom };
  const y = (n) => margin.top + inner.height * (1 - n / ticks.at(-1));
  const step = inner.width / days.length;
  const every = Math.ceil(days.length / Math.max(1, Math.floor(inner.width / 56)));
  return html`<figure class="chart" ref=${box}>
    ${width > 0 && html`<svg role="img" aria-label=${`Plot of ${label}; the table below has the numbers`} width=${width} height=${height}>
      ${ticks.map((n) => html`<g key=${n}><line class="rule" x1=${margin.left} x2=${width - margin.right} y1=${y(n)} y2=${y(n)} /><text x=${margin.left - 8} y=${y(n) + 4} text-anchor="end">${write(n)}</text></g>`)}
      ${days.map((d, i) => html`<${Day} key=${d} day=${d} x=${margin.left + i * step} step=${step} y=${y} series=${series} at=${i} write=${write} />`)}
      ${days.map((d, i) => (days.length - 1 - i) % every === 0 && html`<text key=${d} x=${margin.left + (i + 0.5) * step} y=${height - 6} text-anchor="middle">${d.slice(5)}</text>`)}
    </svg>`}
    <figcaption><ul class="legend">${series.map((s, i) => html`<li key=${s.name}><span class=${'swatch s' + i} aria-hidden="true"></span> ${visible(s.name)} <span class="muted">${s.note || write(Number(s.total.toPrecision(3)))}</span></li>`)}</ul></figcaption>
  </figure>`;
}

function Day({ day, x, step, y, series, at, write }) {
  const gap = Math.min(step * 0.25, 8);
  let below = 0;
  return series.map((s, i) => {
    const value = s.values[at];
    if (!value) return null;
    const from = below;
    below += value;
    return html`<rect key=${i} class=${'s' + i} x=${x + gap / 2} width=${Math.max(1, step - gap)} y=${y(below)} height=${Math.max(0.5, y(from) - y(below))}>
      <title>${day}, ${visible(s.name)}: ${write(Number(value.toPrecision(4)))}</title></rect>`;
  });
}
