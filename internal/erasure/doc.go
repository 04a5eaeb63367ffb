// Package erasure removes one user's data: it records requests, carries them out, and reports what was removed. The workflow Erasure runs it.
//
// The user's id is kept only until the erasure ends. [Subject] stays, a keyed hash that anyone who knows the id can verify.
package erasure
