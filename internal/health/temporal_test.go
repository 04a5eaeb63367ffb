package health_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/turnstone-run/turnstone/internal/health"
)

// frontend is a Temporal frontend that knows one namespace and one queue.
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer

	retention time.Duration
	pollers   []*taskqueuepb.PollerInfo
	stats     *taskqueuepb.TaskQueueStats
	versions  *taskqueuepb.TaskQueueVersioningInfo
	fails     error
}

func (f *frontend) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{Capabilities: &workflowservice.GetSystemInfoResponse_Capabilities{}}, nil
}

func (f *frontend) DescribeNamespace(_ context.Context, r *workflowservice.DescribeNamespaceRequest) (*workflowservice.DescribeNamespaceResponse, error) {
	if f.fails != nil {
		return nil, f.fails
	}
	if r.GetNamespace() != "here" {
		return nil, serviceerror.NewNamespaceNotFound(r.GetNamespace()).(interface{ Status() *status.Status }).Status().Err()
	}
	return &workflowservice.DescribeNamespaceResponse{
		NamespaceInfo: &namespacepb.NamespaceInfo{Name: "here", State: enumspb.NAMESPACE_STATE_REGISTERED},
		Config:        &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(f.retention)},
	}, nil
}

func (f *frontend) DescribeTaskQueue(_ context.Context, r *workflowservice.DescribeTaskQueueRequest) (*workflowservice.DescribeTaskQueueResponse, error) {
	if f.fails != nil {
		return nil, f.fails
	}
	out := &workflowservice.DescribeTaskQueueResponse{VersioningInfo: f.versions}
	if r.GetTaskQueue().GetName() == "queue" {
		out.Pollers, out.Stats = f.pollers, f.stats
	}
	return out, nil
}

func serve(t *testing.T, f *frontend) *health.Cluster {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, f)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	c, err := client.Dial(client.Options{HostPort: l.Addr().String(), Namespace: "here"})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &health.Cluster{Client: c, Namespace: "here", TaskQueue: "queue"}
}

func poller(age time.Duration) *taskqueuepb.PollerInfo {
	return &taskqueuepb.PollerInfo{LastAccessTime: timestamppb.New(time.Now().Add(-age))}
}

// runs is a poller of a version of the deployment "turnstone".
func runs(build string) *taskqueuepb.PollerInfo {
	p := poller(time.Second)
	p.DeploymentOptions = &deploymentpb.WorkerDeploymentOptions{
		DeploymentName: "turnstone", BuildId: build, WorkerVersioningMode: enumspb.WORKER_VERSIONING_MODE_VERSIONED,
	}
	return p
}

func version(build string) *deploymentpb.WorkerDeploymentVersion {
	return &deploymentpb.WorkerDeploymentVersion{DeploymentName: "turnstone", BuildId: build}
}

func TestCluster(t *testing.T) {
	f := &frontend{retention: 72 * time.Hour}
	c := serve(t, f)
	r := ask(t, c.Probe())
	require.Equal(t, health.OK, r.State, r.Detail)
	require.Equal(t, "namespace here keeps closed workflows for 72h0m0s", r.Detail)

	c.Attributes = func() bool { return false }
	r = ask(t, c.Probe())
	require.Equal(t, health.Degraded, r.State)
	require.Contains(t, r.Hint, "starter setup")
	c.Attributes = func() bool { return true }

	f.retention = time.Hour
	r = ask(t, c.Probe())
	require.Equal(t, health.Degraded, r.State)
	require.Contains(t, r.Hint, "--retention")

	elsewhere := *c
	elsewhere.Namespace = "elsewhere"
	r = ask(t, elsewhere.Probe())
	require.Equal(t, health.Down, r.State)
	require.Contains(t, r.Hint, "namespace create")

	f.fails = status.Error(codes.PermissionDenied, "Request unauthorized.")
	r = ask(t, c.Probe())
	require.Equal(t, health.Down, r.State)
	require.Contains(t, r.Hint, "refuses the credentials")
}

func TestClusterThatDoesNotAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c, err := client.NewLazyClient(client.Options{HostPort: l.Addr().String(), Namespace: "here"})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, l.Close())
	r := ask(t, (&health.Cluster{Client: c, Namespace: "here", TaskQueue: "queue"}).Probe())
	require.Equal(t, health.Down, r.State)
	require.NotEmpty(t, r.Hint)
}

// A frozen cluster takes connections and says nothing. Nobody waits for it longer than the bound of a probe, both probes at the same time.
func TestFrozenCluster(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	c, err := client.NewLazyClient(client.Options{HostPort: l.Addr().String(), Namespace: "here"})
	require.NoError(t, err)
	defer c.Close()
	cluster := &health.Cluster{Client: c, Namespace: "here", TaskQueue: "queue"}
	for _, r := range board(t, cluster.Probe(), cluster.WorkerProbe()).Read(t.Context()) {
		require.Equal(t, health.Down, r.State)
		require.Equal(t, "no answer within 1.5s", r.Detail)
		require.Contains(t, r.Hint, "overloaded or hangs")
	}
}

func TestWorkers(t *testing.T) {
	now := []*taskqueuepb.PollerInfo{poller(time.Second)}
	for name, c := range map[string]struct {
		f     frontend
		queue string
		state health.State
		hint  string
	}{
		"well":        {f: frontend{pollers: now}, state: health.OK},
		"nobody":      {f: frontend{}, state: health.Down, hint: "Start a worker"},
		"left":        {f: frontend{pollers: []*taskqueuepb.PollerInfo{poller(3 * time.Minute)}}, state: health.Down, hint: "Start a worker"},
		"other queue": {f: frontend{pollers: now}, queue: "other", state: health.Down, hint: "temporal.task_queue"},
		"a few wait":  {f: frontend{pollers: now, stats: &taskqueuepb.TaskQueueStats{ApproximateBacklogCount: 3, ApproximateBacklogAge: durationpb.New(time.Second)}}, state: health.OK},
		"long wait":   {f: frontend{pollers: now, stats: &taskqueuepb.TaskQueueStats{ApproximateBacklogCount: 3, ApproximateBacklogAge: durationpb.New(2 * time.Minute)}}, state: health.Degraded, hint: "start more of them"},
		"many wait":   {f: frontend{pollers: now, stats: &taskqueuepb.TaskQueueStats{ApproximateBacklogCount: 600}}, state: health.Degraded, hint: "start more of them"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := serve(t, &c.f)
			if c.queue != "" {
				cluster.TaskQueue = c.queue
			}
			r := ask(t, cluster.WorkerProbe())
			require.Equal(t, c.state, r.State, r.Detail)
			require.Contains(t, r.Hint, c.hint)
			require.Contains(t, r.Detail, cluster.TaskQueue)
		})
	}
}

// With versions, turns go to the current one and a share of them to the one that ramps up: who polls besides serves none of them.
func TestVersionedWorkers(t *testing.T) {
	left := runs("2")
	left.LastAccessTime = timestamppb.New(time.Now().Add(-3 * time.Minute))
	elsewhere := runs("2")
	elsewhere.DeploymentOptions.DeploymentName = "other"
	plain := poller(time.Second)
	two := &taskqueuepb.TaskQueueVersioningInfo{CurrentDeploymentVersion: version("2")}
	ramps := func(to *deploymentpb.WorkerDeploymentVersion, share float32) *taskqueuepb.TaskQueueVersioningInfo {
		return &taskqueuepb.TaskQueueVersioningInfo{CurrentDeploymentVersion: version("2"), RampingDeploymentVersion: to, RampingVersionPercentage: share}
	}
	const start, none = "start its workers", "No version of the workers' deployment is current"
	for name, c := range map[string]struct {
		pollers  []*taskqueuepb.PollerInfo
		versions *taskqueuepb.TaskQueueVersioningInfo
		state    health.State
		hint     string
		detail   string
	}{
		"the current one polls":           {[]*taskqueuepb.PollerInfo{runs("1"), runs("2")}, two, health.OK, "", ""},
		"only the one before":             {[]*taskqueuepb.PollerInfo{runs("1")}, two, health.Down, start, "version 2 of deployment turnstone"},
		"only the one after":              {[]*taskqueuepb.PollerInfo{runs("3")}, two, health.Down, start, ""},
		"it has left":                     {[]*taskqueuepb.PollerInfo{runs("1"), left}, two, health.Down, start, ""},
		"of another deployment":           {[]*taskqueuepb.PollerInfo{elsewhere}, two, health.Down, start, ""},
		"workers without a version":       {[]*taskqueuepb.PollerInfo{plain}, two, health.Down, start, ""},
		"none is current":                 {[]*taskqueuepb.PollerInfo{runs("1")}, nil, health.Down, none, "without a version"},
		"none is current, an old one too": {[]*taskqueuepb.PollerInfo{runs("1"), plain}, nil, health.OK, "", ""},
		"ramps up":                        {[]*taskqueuepb.PollerInfo{runs("2"), runs("3")}, ramps(version("3"), 10), health.OK, "", ""},
		"ramps up what is not there":      {[]*taskqueuepb.PollerInfo{runs("2")}, ramps(version("3"), 12.5), health.Degraded, start, "12.5% of turns"},
		"ramps up, the current is gone":   {[]*taskqueuepb.PollerInfo{runs("3")}, ramps(version("3"), 10), health.Down, start, "version 2 of"},
		"not yet":                         {[]*taskqueuepb.PollerInfo{runs("2")}, ramps(version("3"), 0), health.OK, "", ""},
		"ramped up whole":                 {[]*taskqueuepb.PollerInfo{runs("3")}, ramps(version("3"), 100), health.OK, "", ""},
		"ramped up whole, and gone":       {[]*taskqueuepb.PollerInfo{runs("2")}, ramps(version("3"), 100), health.Down, start, "version 3 of"},
		"ramps down to none":              {[]*taskqueuepb.PollerInfo{runs("2")}, ramps(nil, 20), health.Degraded, none, "20% of turns"},
	} {
		t.Run(name, func(t *testing.T) {
			r := ask(t, serve(t, &frontend{pollers: c.pollers, versions: c.versions}).WorkerProbe())
			require.Equal(t, c.state, r.State, r.Detail)
			require.Contains(t, r.Hint, c.hint)
			require.Contains(t, r.Detail, c.detail)
			require.Contains(t, r.Detail, `"queue"`)
		})
	}
}
