// Package erasure is the vocabulary of taking away what is kept of one user: what is asked for, how far it has come, and the report that
// proves what was removed. It does no I/O.
//
// The user's id is kept only while the erasure is under way. What stays is [Subject]: a keyed hash, which whoever knows the id can check.
package erasure
