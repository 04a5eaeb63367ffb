// Package library keeps workflow definitions here, in this runtime: it checks them, patches them and takes patches back. Every change is a
// version of its own, and is asked for once: a request under an idempotency key that comes again is answered as the first time.
//
// Two changes at the same time do not overwrite each other. A change that names the version it was made from is refused when there is a
// newer one; a patch that names none is applied to the newest, again if that was changed meanwhile.
package library
