// Package admission decides whether a turn may begin: requests a minute, turns at once, tokens a minute and budgets, of tenants, of users
// within them and of agents within them (docs/guides/limits.md). What is counted is counted by the store, for every process that shares it; here
// is only who is bound by what.
//
//	bounds of the configuration ─┐ stricter
//	rate_limits of the agent ────┴────────→ agent.Admission ──→ Store.Admit ──→ in, or rate_limited
//	                                                                  │ too many at once
//	                                        turns that nobody drives ←┘ are ended, and the store is asked once more
//
// Where nothing is bound nothing is asked. Where something is, a store that cannot be reached lets nobody in.
package admission
