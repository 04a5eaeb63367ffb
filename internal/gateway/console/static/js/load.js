// Loading what a view shows, for as long as the view is there.
import { useEffect, useState } from './html.js';
import { call, words } from './api.js';
import { state } from './store.js';

// The shortest time between two requests of a view that looks again by itself, in milliseconds.
const shortest = 5000;

// poll calls load again and again while the page can be seen, and returns what stops it.
export function poll(load, every) {
  const timer = setInterval(() => !document.hidden && state.reachable && load(), Math.max(every, shortest));
  return () => clearInterval(timer);
}

// useLoad returns {data, error, again} of a path of the API, '' for nothing yet. A view that is left cancels its request. every is the time
// after which it looks again, 0 for never; it also does when another credential is given and when the server is back.
export function useLoad(path, every = 0) {
  const [loaded, setLoaded] = useState({ path: '', data: null, error: '' });
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    if (!path) return undefined;
    const control = new AbortController();
    let busy = false;
    const load = async () => {
      if (busy) return;
      busy = true;
      let next;
      try {
        const data = await call(path, { signal: control.signal });
        next = () => ({ path, data, error: '', status: 0 });
      } catch (err) {
        next = (old) => ({ path, data: old.path === path ? old.data : null, error: words(err), status: err.status ?? 0 });
      }
      busy = false;
      if (!control.signal.aborted) setLoaded(next);
    };
    load();
    const stop = every ? poll(load, every) : () => {};
    return () => {
      stop();
      control.abort();
    };
  }, [path, every, attempt, state.principal, state.comebacks]);
  const current = loaded.path === path ? loaded : { data: null, error: '', status: 0 };
  return { ...current, again: () => setAttempt((n) => n + 1) };
}
