// Package threats has only tests. They check that SECURITY.md and docs/reference/requirements.md name tests that exist, and that the supply
// chain is pinned.
package threats
