// Package activities makes use cases callable by Temporal: it adds the names that histories hold, heartbeats, attempts, and errors that say whether
// to try again. It decides nothing.
package activities
