// Package activities wraps the use cases as Temporal activities: the names in histories, heartbeats, attempts, and errors with their
// retryability. It decides nothing.
package activities
