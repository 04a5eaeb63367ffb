// Package cluster is what Turnstone asks of a Temporal cluster besides running workflows:
//
//   - connection options ([Options]) and search attributes ([FindAttributes], [AddAttributes], [AttributeWatch]);
//   - Temporal schedules for the schedules in PostgreSQL: of agents ([AgentSchedules]), of workflow definitions ([WorkflowSchedules]), and of the
//     workflow Retention ([RetentionSchedule]). If a person pauses or changes one in Temporal, it stays so until its stored form changes;
//   - the end of executions whose data is erased ([Executions]).
//
// It links neither server nor database, so that the command line stays small.
package cluster
