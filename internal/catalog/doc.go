// Package catalog serves the agents of a process. It compiles catalog documents to plans; documents may change while turns run.
//
// A document is in one of two layers. The base layer belongs to this process: shipped documents, nodes of its toolkits, models of its
// configuration. The stored layer is the same for every process; its documents hide base documents of the same key. Each change is one
// revision of the store.
//
//	folder ─┐                                 ┌─ notification, or poll
//	API ────┴─▶ Apply ─▶ parse ─▶ check ─▶ commit ─▶ refresh ─▶ snapshot ─▶ Resolve, Route, List, Watch
//	                       against the candidate snapshot                 │
//	                                                                      └─▶ plan, compiled on first use, saved by hash
//
// A snapshot never changes. A refresh builds the next snapshot from the changes and swaps it in. Readers keep the snapshot they have, and a
// turn keeps the plan that it began with, by hash.
//
// Documents that are edited elsewhere come from a folder ([Folder], for development) or from another installation ([Follower]). Apply accepts
// all documents of a source or none. While a source is unavailable or has faults, the last applied documents stay in force.
package catalog
