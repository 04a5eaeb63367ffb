// Package catalog knows the agents: documents are data, compiled to plans, and change while turns run.
//
// A document is in one of two layers. The base layer is this process's own: what is shipped, what its toolkits are, which models its
// configuration names. Stored documents lie above it, hide those of the same key, and are the same for every process: each change
// is one revision of the store.
//
//	folder ─┐                                 ┌─ notification, or poll
//	API ────┴─▶ Apply ─▶ parse ─▶ check ─▶ commit ─▶ refresh ─▶ snapshot ─▶ Resolve, Route, List, Watch
//	                       all of it against the candidate snapshot       │
//	                                                                      └─▶ plan, compiled when first asked for, saved by hash
//
// A snapshot never changes. A refresh makes the next one out of what changed and swaps it in; readers keep the one they have, and
// a turn keeps the plan that it began with, by hash.
package catalog
