// Package cluster is what Turnstone asks of a Temporal cluster besides running workflows:
//
//   - connection options ([Options]) and search attributes ([FindAttributes], [AddAttributes], [AttributeWatch]);
//   - schedules that match what PostgreSQL stores: those of agents ([AgentSchedules]), those that definitions of workflows declare
//     ([WorkflowSchedules]), and the one of the workflow Retention ([RetentionSchedule]). A schedule that a person has paused or changed in
//     Temporal stays so until its stored form changes;
//   - the end of executions whose data is erased ([Executions]).
//
// It links neither server nor database, so that the command line stays small.
package cluster
