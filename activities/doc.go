// Package activities gives the use cases the form that Temporal wants: names that histories hold, heartbeats, attempts, and errors that
// say whether to try again. It decides nothing.
package activities
