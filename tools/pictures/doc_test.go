// Package pictures takes the screenshots in docs/start/web-ui.md: turns with encrypted and offloaded payloads in the Temporal Web UI. It checks each
// page before it takes a screenshot. Without -pictures it only checks.
//
// It builds dev and listens on free ports. It needs Debian's package chromium, and all that dev needs.
package pictures_test
