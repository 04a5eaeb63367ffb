// Package erasing has the activities of Erasure: what takes one user's data away, in bounded pieces that may be done twice. The workflow
// knows the erasure's id and numbers; whose data it is stays in the store.
package erasing
