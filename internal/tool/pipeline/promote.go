package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// DefaultPromoteAfter is how often a pipeline's shape is used before it becomes a tool.
const DefaultPromoteAfter = 2

const (
	// usePatience bounds what a call waits for its use to be counted, and again for a promotion: the pipeline may run within two seconds.
	usePatience = time.Second
	// maxComposites is how many a tenant may have switched on before no more are made: agents are told of each.
	maxComposites = 200
)

// promoter counts the uses of pipelines and makes tools of those that come again.
type promoter struct {
	store  tool.Composites
	after  int64
	lists  *listings
	logger *zap.Logger
}

// used counts a completed call, and promotes its shape when it is time. Whatever goes wrong, the call is as good without it.
func (p *promoter) used(ctx context.Context, inv agent.Invocation, prog *program) {
	if p == nil || inv.IdempotencyKey == "" {
		return
	}
	doc, ok := canonical(prog)
	if !ok {
		return
	}
	shape, err := doc.shape()
	if err != nil {
		return
	}
	steps, err := doc.encode()
	if err != nil || !clean(inv, steps) {
		return
	}
	use := agent.PipelineUse{Tenant: inv.Tenant, Key: inv.IdempotencyKey, Shape: shape, Steps: steps}
	uses, err := p.count(ctx, use)
	if err != nil {
		p.log("count a pipeline", err)
		return
	}
	c, ok := p.due(ctx, use, &uses)
	if !ok {
		return
	}
	if err := p.save(ctx, c); err != nil {
		p.log("save a composite", err)
	}
}

func (p *promoter) count(ctx context.Context, use agent.PipelineUse) (agent.PipelineUses, error) {
	ctx, free := context.WithTimeout(ctx, usePatience)
	defer free()
	return p.store.UsePipeline(ctx, use)
}

// due returns the composite that a shape is to be promoted to, or the next version of the one that it has.
func (p *promoter) due(ctx context.Context, use agent.PipelineUse, uses *agent.PipelineUses) (c agent.Composite, ok bool) {
	has := uses.Composite
	if has == nil && uses.Count < p.after || has != nil && !has.Enabled {
		return c, false
	}
	samples := documents(uses.Samples, use.Shape)
	if len(samples) == 0 {
		return c, false
	}
	if has != nil {
		return grown(has, samples)
	}
	if c, ok = promoted(samples); !ok || p.full(ctx, use.Tenant) {
		return c, false
	}
	c.Tenant, c.Shape = use.Tenant, use.Shape
	return c, true
}

func (p *promoter) save(ctx context.Context, c agent.Composite) error {
	ctx, free := context.WithTimeout(ctx, usePatience)
	defer free()
	stored, err := p.store.SaveComposite(ctx, c)
	if err != nil {
		return err
	}
	p.lists.forget(c.Tenant)
	if p.logger != nil {
		p.logger.Info("a pipeline is a tool", zap.String("tenant", c.Tenant), zap.String("tool", stored.Name), zap.Int64("version", stored.Version))
	}
	return nil
}

// full reports whether a tenant has as many composites as it may.
func (p *promoter) full(ctx context.Context, tenant string) bool {
	ctx, free := context.WithTimeout(ctx, usePatience)
	defer free()
	list, err := p.lists.enabled(ctx, tenant)
	if err != nil {
		p.log("list composites", err)
		return true
	}
	if len(list) >= maxComposites {
		p.log("promote a pipeline", agent.Errorf(agent.CodeOverflow, "", "tenant %q has %d composites", tenant, len(list)))
		return true
	}
	return false
}

// documents reads samples; those that are not of the shape or hold what looks like a secret, which nobody should have
// stored, are left out.
func documents(samples []json.RawMessage, shape string) []document {
	var all []document
	for _, raw := range samples {
		d, err := decodeDocument(raw)
		if err != nil {
			continue
		}
		if s, err := d.shape(); err == nil && s == shape && !d.secretive() {
			all = append(all, d)
		}
	}
	return all
}

// clean reports whether a pipeline may be kept as it is: where an agent's answers are cleaned, what would be cleaned out of a pipeline
// must not come to other agents as an example.
func clean(inv agent.Invocation, steps json.RawMessage) bool {
	if inv.Redact == nil {
		return true
	}
	cleaned, err := inv.Redact(steps)
	if err != nil {
		return false
	}
	d, err := decodeDocument(cleaned)
	if err != nil {
		return false
	}
	again, err := d.encode()
	return err == nil && bytes.Equal(again, steps)
}

func (p *promoter) log(what string, err error) {
	if p.logger != nil {
		p.logger.Warn("composite tools", zap.String("op", what), zap.Error(err))
	}
}
