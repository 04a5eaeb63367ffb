package gatewaytest

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// rowsOf is a stored dataset.
type rowsOf struct {
	tenant string
	open   func(ctx context.Context) (io.ReadCloser, error)
}

// StoreRows makes the rows of a reference or id available to a tenant, in the form of a JSON document.
func (rt *Runtime) StoreRows(tenant, ref, document string) {
	rt.StoreStream(tenant, ref, func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(document)), nil })
}

// StoreStream is StoreRows for a dataset that is made while it is read.
func (rt *Runtime) StoreStream(tenant, ref string, open func(ctx context.Context) (io.ReadCloser, error)) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.datasets[ref] = rowsOf{tenant, open}
}

// Dataset implements [gateway.Datasets].
func (rt *Runtime) Dataset(ctx context.Context, tenant, ref string) (io.ReadCloser, error) {
	rt.mu.Lock()
	rows, ok := rt.datasets[rt.jobResult(ref)]
	rt.mu.Unlock()
	if !ok || (tenant != agent.AnyTenant && tenant != rows.tenant) {
		return nil, agent.Errorf(agent.CodeNotFound, "", "no result %q", ref)
	}
	return rows.open(ctx)
}

// ResultMetadata implements [gateway.Datasets]: every turn has called one tool, whose answer was cached.
func (rt *Runtime) ResultMetadata(ctx context.Context, tenant string, id agent.TurnID) (agent.ResultMetadata, error) {
	v, err := rt.Turn(ctx, tenant, id)
	switch {
	case err != nil:
		return agent.ResultMetadata{}, err
	case v.Output == nil:
		return agent.ResultMetadata{}, agent.Errorf(agent.CodeNotFound, "", "turn %q has no result", id)
	}
	return agent.ResultMetadata{
		ToolCalls:  json.RawMessage(`[{"tool":"execute_pipeline","args":{"pipeline":[]},"status":"success"}]`),
		TokensUsed: v.Output.Usage.InputTokens + v.Output.Usage.OutputTokens, CacheHit: true,
	}, nil
}
