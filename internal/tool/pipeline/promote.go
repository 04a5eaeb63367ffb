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
	// useTimeout bounds how long a call waits until its use is counted, and again for a promotion.
	useTimeout = time.Second
	// maxComposites bounds the composites that a tenant has switched on, because each is in the prompts of its agents.
	maxComposites = 200
)

// promoter counts the uses of pipelines and makes tools of those that come again.
type promoter struct {
	store  tool.Composites
	after  int64
	lists  *listings
	logger *zap.Logger
}

// recordUse counts a completed call, and promotes its shape after enough uses. An error is logged and changes nothing for the call.
func (p *promoter) recordUse(ctx context.Context, inv agent.Invocation, prog *program) {
	if p == nil || inv.IdempotencyKey == "" {
		return
	}
	doc, ok := canonicalDocument(prog)
	if !ok {
		return
	}
	shape, err := doc.shape()
	if err != nil {
		return
	}
	steps, err := doc.encode()
	if err != nil || !isClean(inv, steps) {
		return
	}
	use := agent.PipelineUse{Tenant: inv.Tenant, Key: inv.IdempotencyKey, Shape: shape, Steps: steps}
	uses, err := p.count(ctx, use)
	if err != nil {
		p.log("count a pipeline", err)
		return
	}
	c, ok := p.dueComposite(ctx, use, &uses)
	if !ok {
		return
	}
	if err := p.save(ctx, c); err != nil {
		p.log("save a composite", err)
	}
}

func (p *promoter) count(ctx context.Context, use agent.PipelineUse) (agent.PipelineUses, error) {
	ctx, cancel := context.WithTimeout(ctx, useTimeout)
	defer cancel()
	return p.store.UsePipeline(ctx, use)
}

// dueComposite returns the composite to which a shape is promoted, or the next version of the one that it has; false if neither is due.
func (p *promoter) dueComposite(ctx context.Context, use agent.PipelineUse, uses *agent.PipelineUses) (c agent.Composite, ok bool) {
	has := uses.Composite
	if has == nil && uses.Count < p.after || has != nil && !has.Enabled {
		return c, false
	}
	samples := decodeSamples(uses.Samples, use.Shape)
	if len(samples) == 0 {
		return c, false
	}
	if has != nil {
		return grownComposite(has, samples)
	}
	if c, ok = promotedComposite(samples); !ok || p.isFull(ctx, use.Tenant) {
		return c, false
	}
	c.Tenant, c.Shape = use.Tenant, use.Shape
	return c, true
}

func (p *promoter) save(ctx context.Context, c agent.Composite) error {
	ctx, cancel := context.WithTimeout(ctx, useTimeout)
	defer cancel()
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

// isFull reports whether a tenant has as many composites as it may.
func (p *promoter) isFull(ctx context.Context, tenant string) bool {
	ctx, cancel := context.WithTimeout(ctx, useTimeout)
	defer cancel()
	list, err := p.lists.listEnabled(ctx, tenant)
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

// decodeSamples returns the samples of a shape. It leaves out those with what looks like a secret.
func decodeSamples(samples []json.RawMessage, shape string) []document {
	var all []document
	for _, raw := range samples {
		d, err := decodeDocument(raw)
		if err != nil {
			continue
		}
		if s, err := d.shape(); err == nil && s == shape && !d.hasSecret() {
			all = append(all, d)
		}
	}
	return all
}

// isClean reports whether the agent's middleware leaves a pipeline as it is. What it would remove must not reach other agents as an
// example.
func isClean(inv agent.Invocation, steps json.RawMessage) bool {
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
