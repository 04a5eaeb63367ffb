// Package pictures takes the pictures of docs/start/web-ui.md: turns on a stack with encrypted and offloaded payloads, as the Temporal Web UI shows
// them in a real browser. What a picture shows is checked before it is taken, so that a run without -pictures is a test of the same.
//
// It needs what `dev` needs and Debian's package chromium, builds dev, and takes free ports.
package pictures_test
