// Package threats has no code, only tests: they hold SECURITY.md against the tree, so that no threat is answered by a test that is gone.
package threats
