// Package library keeps the workflow definitions of this runtime: it validates, patches and reverts them. Every change makes a new version. A
// request that is repeated under its idempotency key gets the first result again.
//
// Changes at the same time do not overwrite each other. A change that names its base version is refused if that is not the newest. A patch without
// a base version is applied to the newest version, and again if another change came first.
package library
