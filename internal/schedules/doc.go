// Package schedules has the use cases of a run of a schedule: submit its turn, wait for the end, store the result and notify. They return ids
// and statuses only; messages and answers stay in the store.
package schedules
