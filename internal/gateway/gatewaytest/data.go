package gatewaytest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

type tenantDataset struct {
	tenant string
	open   func(ctx context.Context) (io.ReadCloser, error)
}

// StoreRows stores the rows of a reference or id for a tenant, as a JSON document.
func (rt *Runtime) StoreRows(tenant, ref, document string) {
	rt.StoreStream(tenant, ref, func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(document)), nil })
}

// StoreStream is StoreRows for a dataset that is generated while it is read.
func (rt *Runtime) StoreStream(tenant, ref string, open func(ctx context.Context) (io.ReadCloser, error)) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.datasets[ref] = tenantDataset{tenant, open}
}

// Dataset implements [gateway.Results].
func (rt *Runtime) Dataset(ctx context.Context, tenant, ref string) (io.ReadCloser, error) {
	rt.mu.Lock()
	d, ok := rt.datasets[rt.resultRef(ref)]
	rt.mu.Unlock()
	if !ok || (tenant != agent.AnyTenant && tenant != d.tenant) {
		return nil, agent.Errorf(agent.CodeNotFound, "", "no result %q", ref)
	}
	return d.open(ctx)
}

// ResultMetadata implements [gateway.Results]. Every turn has called one tool, with a cached result.
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

// resultPrefix is the beginning of the reference of every turn's result.
const resultPrefix = "artifact://result-of-"

// Store stores a result under a reference. It belongs to all tenants unless it is a turn's.
func (rt *Runtime) Store(ref string, document []byte) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.results[ref] = document
}

// resultRef returns the reference for a job id, and other references unchanged. rt.mu is locked.
func (rt *Runtime) resultRef(ref string) string {
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
	v := gateway.ResultView{Ref: rt.resultRef(ref)}
	document, ok := rt.results[v.Ref]
	id := agent.TurnID(strings.TrimPrefix(v.Ref, resultPrefix))
	if t := rt.turns[id]; t != nil {
		v.TurnID = id
		ok = ok && (tenant == agent.AnyTenant || tenant == t.request.Context.Tenant)
	}
	if !ok {
		return gateway.ResultView{}, agent.Errorf(agent.CodeNotFound, "", "no result %q", ref)
	}
	v.Size, v.Body = int64(len(document)), io.NopCloser(bytes.NewReader(document))
	return v, nil
}
