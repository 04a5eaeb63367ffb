package metrics_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/turnstone-run/turnstone/internal/telemetry/metrics"
)

// frontend is a fake Temporal frontend that describes task queues.
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer

	mu    sync.Mutex
	asked []*workflowservice.DescribeTaskQueueRequest
	fault error
}

func (f *frontend) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{}, nil
}

func (f *frontend) DescribeTaskQueue(
	_ context.Context, in *workflowservice.DescribeTaskQueueRequest,
) (*workflowservice.DescribeTaskQueueResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, in)
	if f.fault != nil {
		return nil, f.fault
	}
	out := &workflowservice.DescribeTaskQueueResponse{Pollers: []*taskqueuepb.PollerInfo{
		{LastAccessTime: timestamppb.Now()}, {LastAccessTime: timestamppb.New(time.Now().Add(-3 * time.Minute))},
	}}
	if in.GetTaskQueueType() == enumspb.TASK_QUEUE_TYPE_ACTIVITY {
		out.Pollers = nil
		out.Stats = &taskqueuepb.TaskQueueStats{ApproximateBacklogCount: 12, ApproximateBacklogAge: durationpb.New(3 * time.Second)}
	}
	return out, nil
}

func dial(t *testing.T, f *frontend, handler client.MetricsHandler) client.Client {
	t.Helper()
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, f)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(lis) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	c, err := client.NewLazyClient(client.Options{HostPort: lis.Addr().String(), Namespace: "here", MetricsHandler: handler})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestQueues(t *testing.T) {
	f := &frontend{}
	to := prometheus.NewPedanticRegistry()
	handler, err := metrics.Temporal(to, zap.NewNop())
	require.NoError(t, err)
	c := dial(t, f, handler)
	got, err := metrics.Queues(c, "here", "work")(t.Context())
	require.NoError(t, err)
	require.Equal(t, []metrics.Queue{{Kind: "workflow", Pollers: 1}, {Kind: "activity", Backlog: 12, Age: 3 * time.Second}}, got)
	for _, in := range f.asked {
		require.Equal(t, []any{"here", "work", true}, []any{in.GetNamespace(), in.GetTaskQueue().GetName(), in.GetReportStats()})
	}

	shown := formatSeries(t, to, "temporal_request_total", "temporal_request_latency_seconds")
	require.Contains(t, shown, "operation=DescribeTaskQueue")
	require.Regexp(t, `temporal_request_total\{.*operation=DescribeTaskQueue.*\} 2`, shown)
	require.Regexp(t, `temporal_request_latency_seconds\{.*operation=DescribeTaskQueue.*\} 2/`, shown)

	f.mu.Lock()
	f.fault = fmt.Errorf("no")
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = metrics.Queues(c, "here", "work")(ctx)
	require.ErrorContains(t, err, `task queue "work"`)
}

func TestTemporalIsBounded(t *testing.T) {
	to := prometheus.NewPedanticRegistry()
	handler, err := metrics.Temporal(to, zap.NewNop())
	require.NoError(t, err)
	for i := range 10_000 {
		h := handler.WithTags(map[string]string{"workflow_type": fmt.Sprint("w", i)})
		h.Counter("temporal_workflow_completed").Inc(1)
		h.Gauge("temporal_num_pollers").Update(float64(i))
		h.Timer("temporal_workflow_endtoend_latency").Record(time.Second)
	}
	for _, name := range []string{"temporal_workflow_completed_total", "temporal_num_pollers", "temporal_workflow_endtoend_latency_seconds"} {
		n, err := testutil.GatherAndCount(to, name)
		require.NoError(t, err)
		require.LessOrEqual(t, n, 1000, name)
		require.Greater(t, n, 900, name)
	}
	require.InDelta(t, 10_000, sum(t, to, "temporal_workflow_completed_total"), 0, "the sum is complete")
}
