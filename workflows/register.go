package workflows

import (
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/activities/flows"
)

// Registry is the part of a worker that [Register] needs; the replayer and the test environment have it too.
type Registry interface {
	RegisterWorkflowWithOptions(w any, options workflow.RegisterOptions)
}

// Register registers the workflows under the names of the contract. Turns are auto-upgrade under Worker Versioning: core_version
// and the replay corpus guard them (DESIGN §3).
func Register(r Registry) {
	r.RegisterWorkflowWithOptions(AgentTurn, workflow.RegisterOptions{
		Name: AgentTurnType, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade,
	})
	r.RegisterWorkflowWithOptions(Conversation, workflow.RegisterOptions{
		Name: ConversationType, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade,
	})
	r.RegisterWorkflowWithOptions(DefinedWorkflow, workflow.RegisterOptions{
		Name: DefinedWorkflowType, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade,
	})
	r.RegisterWorkflowWithOptions(ScheduledRun, workflow.RegisterOptions{
		Name: ScheduledRunType, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade,
	})
	r.RegisterWorkflowWithOptions(IntelligentProcess, workflow.RegisterOptions{
		Name: IntelligentProcessType, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade,
	})
	r.RegisterWorkflowWithOptions(Retention, workflow.RegisterOptions{
		Name: RetentionType, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade,
	})
	r.RegisterWorkflowWithOptions(Erasure, workflow.RegisterOptions{
		Name: ErasureType, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade,
	})
}

// RegisterActivities registers the activities one by one under fixed names: registering the struct would take every method that
// looks like one.
func RegisterActivities(r interface {
	RegisterActivityWithOptions(a any, options activity.RegisterOptions)
}, a *activities.Activities,
) {
	for _, registered := range a.Registered() {
		r.RegisterActivityWithOptions(registered.Func, activity.RegisterOptions{Name: registered.Name})
	}
}

// RegisterFlows registers the activities of DefinedWorkflow likewise.
func RegisterFlows(r interface {
	RegisterActivityWithOptions(a any, options activity.RegisterOptions)
}, a *flows.Activities,
) {
	for _, registered := range a.Registered() {
		r.RegisterActivityWithOptions(registered.Func, activity.RegisterOptions{Name: registered.Name})
	}
}
