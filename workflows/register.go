package workflows

import (
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
)

// Registry is the part of a worker that [Register] needs; the replayer and the test environment have it too.
type Registry interface {
	RegisterWorkflowWithOptions(w any, options workflow.RegisterOptions)
}

// Register registers the workflows under the names of the contract. Turns are auto-upgrade under Worker Versioning: core_version
// and the replay corpus guard them (docs/design/determinism.md).
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

// RegisterActivities registers activities one by one under fixed names. Registering a struct would register every method that looks like an
// activity.
func RegisterActivities(r interface {
	RegisterActivityWithOptions(a any, options activity.RegisterOptions)
}, all ...interface {
	Registered() []activities.Registration
},
) {
	for _, some := range all {
		for _, one := range some.Registered() {
			r.RegisterActivityWithOptions(one.Func, activity.RegisterOptions{Name: one.Name})
		}
	}
}
