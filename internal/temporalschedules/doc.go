// Package temporalschedules makes Temporal's schedules match what PostgreSQL stores: the schedules of agents ([AgentSchedules]) and those that
// definitions of workflows declare ([WorkflowSchedules]). Both write through a [Syncer]. A schedule that a person has paused or changed in
// Temporal stays so until its stored form changes.
package temporalschedules
