package gatewaytest

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
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

// Dataset implements [gateway.Results].
func (rt *Runtime) Dataset(ctx context.Context, tenant, ref string) (io.ReadCloser, error) {
	rt.mu.Lock()
	rows, ok := rt.datasets[rt.jobResult(ref)]
	rt.mu.Unlock()
	if !ok || (tenant != agent.AnyTenant && tenant != rows.tenant) {
		return nil, agent.Errorf(agent.CodeNotFound, "", "no result %q", ref)
	}
	return rows.open(ctx)
}

// ResultMetadata implements [gateway.Results]: every turn has called one tool, whose answer was cached.
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

// resultPrefix begins the reference of every turn's result.
const resultPrefix = "artifact://result-of-"

// Store makes a result available under a reference.
func (rt *Runtime) Store(ref string, document []byte) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.results[ref] = document
}

// jobResult is the reference of a job's result, and any other as it is.
func (rt *Runtime) jobResult(ref string) string {
	for id, t := range rt.turns {
		if t.request.Context.Metadata[agent.MetaJobID] == ref && ref != "" {
			return resultPrefix + string(id)
		}
	}
	return ref
}

// Result implements [gateway.Results].
func (rt *Runtime) Result(_ context.Context, tenant, ref string) (gateway.ResultView, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	asked := ref
	ref = rt.jobResult(ref)
	document, ok := rt.results[ref]
	if t := rt.turns[agent.TurnID(strings.TrimPrefix(ref, resultPrefix))]; t != nil && tenant != agent.AnyTenant {
		ok = ok && tenant == t.request.Context.Tenant // what is stored by hand is everybody's
	}
	if !ok {
		ref = asked
		return gateway.ResultView{}, agent.Errorf(agent.CodeNotFound, "", "no result %q", ref)
	}
	v := gateway.ResultView{Ref: ref, Size: int64(len(document)), Body: io.NopCloser(strings.NewReader(string(document)))}
	if id := agent.TurnID(strings.TrimPrefix(ref, resultPrefix)); rt.turns[id] != nil {
		v.TurnID = id
	}
	return v, nil
}
