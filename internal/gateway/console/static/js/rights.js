// What the credential of whoever looks allows. The server decides; a page says it before somebody writes in vain.
import { state } from './store.js';

const matches = (pattern, text) => (pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : pattern === text);

// may reports whether the credential allows an action on a resource; without a resource, on any at all.
export function may(action, resource) {
  const p = state.principal;
  if (!p || p.method === 'none') return Boolean(p);
  return (p.scopes ?? []).some((scope) => {
    const [allowed, ...confined] = scope.split(':');
    return matches(allowed, action) && (confined.length === 0 || resource === undefined || matches(confined.join(':'), resource));
  });
}
