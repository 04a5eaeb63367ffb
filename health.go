package turnstone

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/internal/gateway"
)

// pollerFresh is how recently a worker must have polled to count.
const pollerFresh = 2 * time.Minute

// health asks the dependencies of a turn (DESIGN §8): the answer is good only when a turn can run.
type health struct {
	service   *Service
	queue     string
	namespace string
}

func (h *health) check(ctx context.Context) gateway.Health {
	out := gateway.Health{OK: true}
	for _, probe := range []struct {
		name string
		ask  func(context.Context) (string, error)
	}{
		{"postgres", h.postgres}, {"temporal", h.temporal}, {"worker", h.worker},
	} {
		started := time.Now()
		detail, err := probe.ask(ctx)
		d := gateway.Dependency{Name: probe.name, OK: err == nil, Detail: detail, Took: time.Since(started)}
		if err != nil {
			d.Detail = err.Error()
			out.OK = false
		}
		out.Dependencies = append(out.Dependencies, d)
	}
	out.Dependencies = append(out.Dependencies, h.catalog(ctx)...)
	return out
}

// catalog says what keeps newer documents from being served. Turns run all the same, on the last good catalog.
func (h *health) catalog(ctx context.Context) []gateway.Dependency {
	status := h.service.parts.Registry.Status(ctx)
	out := make([]gateway.Dependency, 0, len(status.Sources))
	for _, s := range status.Sources {
		detail := s.Detail
		if len(s.Faults) > 0 {
			detail += ": " + s.Faults[0].String()
		}
		if more := len(s.Faults) - 1; more > 0 {
			detail += fmt.Sprintf(" (and %d more)", more)
		}
		out = append(out, gateway.Dependency{Name: "catalog " + s.Name, OK: s.OK, Detail: detail})
	}
	return out
}

func (h *health) postgres(ctx context.Context) (string, error) {
	stat := h.service.pool.Stat()
	return fmt.Sprintf("%d of %d connections in use", stat.AcquiredConns(), stat.MaxConns()), h.service.pool.Ping(ctx)
}

func (h *health) temporal(ctx context.Context) (string, error) {
	_, err := h.service.temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	return "namespace " + h.namespace, err
}

// worker looks for anybody who polls: the gateway may run apart from the workers.
func (h *health) worker(ctx context.Context) (string, error) {
	d, err := h.service.temporal.DescribeTaskQueue(ctx, h.queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return "", err
	}
	fresh := 0
	for _, p := range d.GetPollers() {
		if time.Since(p.GetLastAccessTime().AsTime()) < pollerFresh {
			fresh++
		}
	}
	if fresh == 0 {
		return "", fmt.Errorf("nobody polls task queue %q", h.queue)
	}
	return fmt.Sprintf("%d polling task queue %q", fresh, h.queue), nil
}
