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

// Cluster is Temporal as the probes ask it.
type Cluster struct {
	Client     client.Client
	Namespace  string
	TaskQueue  string
	Attributes func() bool // whether the search attributes of turns are registered; nil: nothing is said of them
}

const (
	// pollerFresh is how recently a worker must have polled to count: a long poll takes a minute.
	pollerFresh = 2 * time.Minute
	// shortRetention is too short for a person to look at what happened.
	shortRetention = 24 * time.Hour
	// Turns that wait for longer, or more of them, say that workers are missing.
	oldBacklog  = time.Minute
	longBacklog = 1000
)

// Probe asks whether the cluster answers and has the namespace.
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

// WorkerProbe asks whether anybody takes what waits in the queue: the gateway may run apart from the workers.
func (c *Cluster) WorkerProbe() Probe { return Probe{Name: Worker, Ask: c.askWorker} }

func (c *Cluster) askWorker(ctx context.Context) (Finding, error) {
	var all backlog
	for _, kind := range []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_WORKFLOW, enumspb.TASK_QUEUE_TYPE_ACTIVITY} {
		d, err := c.Client.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
			Namespace: c.Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: c.TaskQueue}, TaskQueueType: kind, ReportStats: true,
		})
		if err != nil {
			return Finding{}, err
		}
		if kind == enumspb.TASK_QUEUE_TYPE_WORKFLOW {
			if f := c.pollers(d); f.State != OK {
				return f, nil
			}
			all.pollers = fresh(d.GetPollers())
		}
		all.add(d.GetStats())
	}
	detail := fmt.Sprintf("%d polling task queue %q, %d tasks waiting", all.pollers, c.TaskQueue, all.waiting)
	if all.oldest > 0 {
		detail += ", the oldest for " + all.oldest.Round(time.Second).String()
	}
	if all.oldest > oldBacklog || all.waiting > longBacklog {
		return Finding{Degraded, detail, hintBacklog}, nil
	}
	return Finding{State: OK, Detail: detail}, nil
}

// pollers judges who polls for workflow tasks: nobody, or only versions that get none. A queue sends turns to its current version and a share of
// them to the one that ramps up; where either is nil, to workers without a version. What this process is configured as says nothing of that.
func (c *Cluster) pollers(d *workflowservice.DescribeTaskQueueResponse) Finding {
	polling := slices.DeleteFunc(slices.Clone(d.GetPollers()), stale)
	if len(polling) == 0 {
		return Finding{Down, fmt.Sprintf("nobody polls task queue %q in namespace %s", c.TaskQueue, c.Namespace), hintNoWorker}
	}
	v := d.GetVersioningInfo()
	switch ramping, share := v.GetRampingDeploymentVersion(), v.GetRampingVersionPercentage(); {
	case share < 100 && !served(v.GetCurrentDeploymentVersion(), polling):
		return c.unserved(Down, "turns", v.GetCurrentDeploymentVersion(), len(polling))
	case share >= 100 && !served(ramping, polling):
		return c.unserved(Down, "turns", ramping, len(polling))
	case share > 0 && !served(ramping, polling):
		return c.unserved(Degraded, fmt.Sprintf("%g%% of turns", share), ramping, len(polling))
	}
	return Finding{State: OK}
}

// unserved says that turns go where nobody polls.
func (c *Cluster) unserved(state State, turns string, to *deploymentpb.WorkerDeploymentVersion, pollers int) Finding {
	if to == nil {
		detail := fmt.Sprintf("%s of task queue %q go to workers without a version, and all %d that poll it are versioned", turns, c.TaskQueue, pollers)
		return Finding{state, detail, hintNoCurrent}
	}
	detail := fmt.Sprintf("%s of task queue %q go to version %s of deployment %s, and none of the %d workers that poll it runs that",
		turns, c.TaskQueue, to.GetBuildId(), to.GetDeploymentName(), pollers)
	return Finding{state, detail, hintUnserved}
}

// served reports whether somebody who polls runs a version; nil is no version.
func served(v *deploymentpb.WorkerDeploymentVersion, polling []*taskqueuepb.PollerInfo) bool {
	return slices.ContainsFunc(polling, func(p *taskqueuepb.PollerInfo) bool {
		o := p.GetDeploymentOptions()
		if o.GetWorkerVersioningMode() != enumspb.WORKER_VERSIONING_MODE_VERSIONED {
			return v == nil
		}
		return v != nil && o.GetDeploymentName() == v.GetDeploymentName() && o.GetBuildId() == v.GetBuildId()
	})
}

func stale(p *taskqueuepb.PollerInfo) bool {
	return time.Since(p.GetLastAccessTime().AsTime()) >= pollerFresh
}

func fresh(pollers []*taskqueuepb.PollerInfo) (n int) {
	for _, p := range pollers {
		if !stale(p) {
			n++
		}
	}
	return n
}

// backlog is what waits in both halves of a queue.
type backlog struct {
	pollers int
	waiting int64
	oldest  time.Duration
}

func (b *backlog) add(s *taskqueuepb.TaskQueueStats) {
	b.waiting += s.GetApproximateBacklogCount()
	b.oldest = max(b.oldest, s.GetApproximateBacklogAge().AsDuration())
}
