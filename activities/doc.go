// Package activities is where a turn touches the world: [Activities] holds the functions that the workflows call, and this
// package declares the ports they need. Adapters satisfy the ports without importing this package; the composition root asserts
// that at compile time (STYLE §3).
package activities
