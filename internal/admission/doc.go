// Package admission decides whether a turn may begin. It applies the bounds on requests a minute, concurrent turns, tokens a minute and
// budgets of tenants, and of the users and agents within them (docs/guides/limits.md). The store counts, for all processes that share it. This
// package only decides which bounds apply to whom.
//
//	bounds of the configuration ─┐ stricter
//	rate_limits of the agent ────┴────────→ agent.Admission ──→ Store.Admit ──→ admitted, or rate_limited
//	                                                                  │ too many concurrent turns
//	                                        turns without a workflow ←┘ are ended, and the store is asked once more
//
// If no bound applies, the store is not asked. If one does and the store cannot be reached, the turn is refused.
package admission
