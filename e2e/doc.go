// Package e2e runs the whole system as its users do: a real Temporal server, a real PostgreSQL, the offline model over real HTTP,
// every door. It is the one test package that links the Temporal server; every run is replayed right after it finishes.
package e2e
