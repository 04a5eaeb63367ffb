// Package runs has the activities of ScheduledRun: what one run of a schedule reads, asks and tells. The workflow knows ids and how things
// ended only; what was asked and answered stays in the store.
package runs
