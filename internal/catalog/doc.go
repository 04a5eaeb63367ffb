// Package catalog has the agents of a process. Documents are data: they are compiled to plans, and they change while turns run.
//
// A document is in one of two layers. The base layer is this process's own: shipped documents, nodes of its toolkits, models of its
// configuration. Stored documents are above it, hide those of the same key, and are the same for every process. Each change is one
// revision of the store.
//
//	folder ─┐                                 ┌─ notification, or poll
//	API ────┴─▶ Apply ─▶ parse ─▶ check ─▶ commit ─▶ refresh ─▶ snapshot ─▶ Resolve, Route, List, Watch
//	                       all of it against the candidate snapshot       │
//	                                                                      └─▶ plan, compiled on first use, saved by hash
//
// A snapshot never changes. A refresh makes the next one from the changes and swaps it in. Readers keep the one they have, and a turn keeps
// the plan that it began with, by hash.
//
// Documents that are edited elsewhere come from a folder ([Folder], for development) or from another installation ([Follower]). Apply takes all
// documents of such a source or none. While a source is unavailable or has faults, the documents that were applied last stay.
package catalog
