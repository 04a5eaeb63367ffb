package metrics

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.uber.org/zap"
)

const (
	// maxSDKSeries bounds the combinations of labels of each metric of the SDK. Further ones become one with otel_metric_overflow="true".
	maxSDKSeries = 1000
	// pollerLifetime is how long a worker counts after it has polled. A poll takes up to a minute.
	pollerLifetime = 2 * time.Minute
)

// sdkBuckets returns the buckets of requests, tasks and workflows, in seconds.
func sdkBuckets() []float64 {
	return []float64{0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300}
}

// Temporal registers the metrics of the Temporal SDK (temporal_*) and returns their handler for client.Options. Their names get the suffixes of
// Prometheus, as in temporal_request_total and temporal_request_latency_seconds.
func Temporal(to prometheus.Registerer, logger *zap.Logger) (client.MetricsHandler, error) {
	reader, err := exporter.New(exporter.WithRegisterer(to), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("register metrics of the Temporal SDK: %w", err)
	}
	timers := metric.NewView(metric.Instrument{Kind: metric.InstrumentKindHistogram},
		metric.Stream{Aggregation: metric.AggregationExplicitBucketHistogram{Boundaries: sdkBuckets(), NoMinMax: true}})
	provider := metric.NewMeterProvider(metric.WithReader(reader), metric.WithView(timers), metric.WithCardinalityLimit(maxSDKSeries))
	return opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter: provider.Meter("temporal-sdk-go"), UseMonotonicCounters: true,
		OnError: func(err error) { logger.Warn("a metric of the Temporal SDK", zap.Error(err)) },
	}), nil
}

// Queues returns a function that reads the backlog, its age and the pollers of a task queue from Temporal.
func Queues(temporal client.Client, namespace, queue string) func(ctx context.Context) ([]Queue, error) {
	return func(ctx context.Context) ([]Queue, error) {
		var out []Queue
		for _, part := range []struct {
			kind string
			is   enumspb.TaskQueueType
		}{{"workflow", enumspb.TASK_QUEUE_TYPE_WORKFLOW}, {"activity", enumspb.TASK_QUEUE_TYPE_ACTIVITY}} {
			d, err := temporal.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
				Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: queue}, TaskQueueType: part.is, ReportStats: true,
			})
			if err != nil {
				return nil, fmt.Errorf("describe task queue %q: %w", queue, err)
			}
			q := Queue{
				Kind: part.kind, Backlog: d.GetStats().GetApproximateBacklogCount(), Age: d.GetStats().GetApproximateBacklogAge().AsDuration(),
			}
			for _, p := range d.GetPollers() {
				if time.Since(p.GetLastAccessTime().AsTime()) < pollerLifetime {
					q.Pollers++
				}
			}
			out = append(out, q)
		}
		return out, nil
	}
}
