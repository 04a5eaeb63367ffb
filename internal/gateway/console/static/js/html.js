// What every component needs of Preact and htm.
import { h, render, Component, Fragment } from 'preact';
import { useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback } from 'preact/hooks';
import htm from '../lib/htm.js';

export const html = htm.bind(h);
export { h, render, Component, Fragment, useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback };

// on adds a listener and returns what removes it: an effect in one line.
export function on(target, type, listener, options) {
  target.addEventListener(type, listener, options);
  return () => target.removeEventListener(type, listener, options);
}
