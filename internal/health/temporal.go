package health

import (
	"context"
	"fmt"
	"slices"
	"time"

	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// Cluster is Temporal for the probes.
type Cluster struct {
	Client     client.Client
	Namespace  string
	TaskQueue  string
	Attributes func() bool // reports whether the search attributes of turns are registered; nil: not checked
}

const (
	// pollerFresh is how recently a worker must have polled. A long poll takes a minute.
	pollerFresh = 2 * time.Minute
	// shortRetention is too short for a person to look at a closed turn.
	shortRetention = 24 * time.Hour
	// Tasks that wait for longer, or more of them, mean that workers are missing.
	oldBacklog  = time.Minute
	longBacklog = 1000
)

// Probe checks whether the cluster answers and has the namespace.
func (c *Cluster) Probe() Probe { return Probe{Name: Temporal, Ask: c.ask} }

func (c *Cluster) ask(ctx context.Context) (Finding, error) {
	d, err := c.Client.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: c.Namespace})
	if err != nil {
		return Finding{}, err
	}
	keeps := d.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	detail := fmt.Sprintf("namespace %s keeps closed workflows for %s", c.Namespace, keeps)
	switch {
	case d.GetNamespaceInfo().GetState() == enumspb.NAMESPACE_STATE_DELETED:
		return Finding{Down, detail + " and is deleted", hintNamespace}, nil
	case c.Attributes != nil && !c.Attributes():
		return Finding{Degraded, detail + "; the search attributes of turns are not registered", hintAttributes}, nil
	case keeps > 0 && keeps < shortRetention:
		return Finding{Degraded, detail, hintRetention}, nil
	}
	return Finding{State: OK, Detail: detail}, nil
}

// WorkerProbe checks whether workers poll the task queue. The gateway may run apart from them.
func (c *Cluster) WorkerProbe() Probe { return Probe{Name: Worker, Ask: c.askWorker} }

func (c *Cluster) askWorker(ctx context.Context) (Finding, error) {
	pollers, waiting, oldest := 0, int64(0), time.Duration(0)
	for _, kind := range []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_WORKFLOW, enumspb.TASK_QUEUE_TYPE_ACTIVITY} {
		d, err := c.Client.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
			Namespace: c.Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: c.TaskQueue}, TaskQueueType: kind, ReportStats: true,
		})
		if err != nil {
			return Finding{}, err
		}
		if kind == enumspb.TASK_QUEUE_TYPE_WORKFLOW {
			polling := slices.DeleteFunc(slices.Clone(d.GetPollers()), isStale)
			if f := c.pollersFinding(polling, d.GetVersioningInfo()); f.State != OK {
				return f, nil
			}
			pollers = len(polling)
		}
		waiting += d.GetStats().GetApproximateBacklogCount()
		oldest = max(oldest, d.GetStats().GetApproximateBacklogAge().AsDuration())
	}
	detail := fmt.Sprintf("%d polling task queue %q, %d tasks waiting", pollers, c.TaskQueue, waiting)
	if oldest > 0 {
		detail += ", the oldest for " + oldest.Round(time.Second).String()
	}
	if oldest > oldBacklog || waiting > longBacklog {
		return Finding{Degraded, detail, hintBacklog}, nil
	}
	return Finding{State: OK, Detail: detail}, nil
}

// pollersFinding returns the finding about the workers that poll for workflow tasks. A queue sends turns to its current version, and a share of them
// to the one that ramps up; nil means workers without a version.
func (c *Cluster) pollersFinding(polling []*taskqueuepb.PollerInfo, v *taskqueuepb.TaskQueueVersioningInfo) Finding {
	if len(polling) == 0 {
		return Finding{Down, fmt.Sprintf("nobody polls task queue %q in namespace %s", c.TaskQueue, c.Namespace), hintNoWorker}
	}
	switch ramping, share := v.GetRampingDeploymentVersion(), v.GetRampingVersionPercentage(); {
	case share < 100 && !isServed(v.GetCurrentDeploymentVersion(), polling):
		return c.unservedFinding(Down, "turns", v.GetCurrentDeploymentVersion(), len(polling))
	case share >= 100 && !isServed(ramping, polling):
		return c.unservedFinding(Down, "turns", ramping, len(polling))
	case share > 0 && !isServed(ramping, polling):
		return c.unservedFinding(Degraded, fmt.Sprintf("%g%% of turns", share), ramping, len(polling))
	}
	return Finding{State: OK}
}

// unservedFinding returns the finding that turns go to a version without pollers.
func (c *Cluster) unservedFinding(state State, turns string, to *deploymentpb.WorkerDeploymentVersion, pollers int) Finding {
	if to == nil {
		detail := fmt.Sprintf("%s of task queue %q go to workers without a version, and all %d that poll it are versioned", turns, c.TaskQueue, pollers)
		return Finding{state, detail, hintNoCurrent}
	}
	detail := fmt.Sprintf("%s of task queue %q go to version %s of deployment %s, and none of the %d workers that poll it runs that",
		turns, c.TaskQueue, to.GetBuildId(), to.GetDeploymentName(), pollers)
	return Finding{state, detail, hintUnserved}
}

// isServed reports whether a poller runs a version; nil is no version.
func isServed(v *deploymentpb.WorkerDeploymentVersion, polling []*taskqueuepb.PollerInfo) bool {
	return slices.ContainsFunc(polling, func(p *taskqueuepb.PollerInfo) bool {
		o := p.GetDeploymentOptions()
		if o.GetWorkerVersioningMode() != enumspb.WORKER_VERSIONING_MODE_VERSIONED {
			return v == nil
		}
		return v != nil && o.GetDeploymentName() == v.GetDeploymentName() && o.GetBuildId() == v.GetBuildId()
	})
}

func isStale(p *taskqueuepb.PollerInfo) bool {
	return time.Since(p.GetLastAccessTime().AsTime()) >= pollerFresh
}
