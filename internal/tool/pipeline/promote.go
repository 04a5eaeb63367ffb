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

// DefaultPromoteAfter is the number of uses after which the shape of a pipeline becomes a composite.
const DefaultPromoteAfter = 2

const (
	// storeTimeout is the timeout of each request to the store, for which the call waits.
	storeTimeout = time.Second
	// maxComposites bounds the composites that a tenant has switched on, because the prompts of its agents describe each of them.
	maxComposites = 200
)

// promoter counts the uses of pipelines and turns repeated ones into composites.
type promoter struct {
	store   tool.Composites
	minUses int64
	lists   *listings
	logger  *zap.Logger
}

// recordUse counts a completed call, and promotes its shape after enough uses. It logs errors; they do not affect the call. A nil promoter
// counts nothing.
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
		p.logError("count a pipeline", err)
		return
	}
	c, ok := p.nextComposite(ctx, use, &uses)
	if !ok {
		return
	}
	if err := p.save(ctx, c); err != nil {
		p.logError("save a composite", err)
	}
}

func (p *promoter) count(ctx context.Context, use agent.PipelineUse) (agent.PipelineUses, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return p.store.UsePipeline(ctx, use)
}

// nextComposite returns the first or the next version of a shape's composite. ok is false if neither is to be made now.
func (p *promoter) nextComposite(ctx context.Context, use agent.PipelineUse, uses *agent.PipelineUses) (c agent.Composite, ok bool) {
	existing := uses.Composite
	if existing == nil && uses.Count < p.minUses || existing != nil && !existing.Enabled {
		return c, false
	}
	samples := decodeSamples(uses.Samples, use.Shape)
	if len(samples) == 0 {
		return c, false
	}
	if existing != nil {
		return extendComposite(existing, samples)
	}
	if c, ok = buildComposite(samples); !ok || p.isFull(ctx, use.Tenant) {
		return c, false
	}
	c.Tenant, c.Shape = use.Tenant, use.Shape
	return c, true
}

func (p *promoter) save(ctx context.Context, c agent.Composite) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	stored, err := p.store.SaveComposite(ctx, c)
	if err != nil {
		return err
	}
	p.lists.invalidate(c.Tenant)
	p.logger.Info("a pipeline is a tool", zap.String("tenant", c.Tenant), zap.String("tool", stored.Name), zap.Int64("version", stored.Version))
	return nil
}

// isFull reports whether a tenant has as many composites as it may, or whether that is not known.
func (p *promoter) isFull(ctx context.Context, tenant string) bool {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	list, err := p.lists.listEnabled(ctx, tenant)
	if err != nil {
		p.logError("list composites", err)
		return true
	}
	if len(list) >= maxComposites {
		p.logError("promote a pipeline", agent.Errorf(agent.CodeOverflow, "", "tenant %q has %d composites", tenant, len(list)))
		return true
	}
	return false
}

// decodeSamples returns the samples that have the shape and nothing that looks like a secret.
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

// isClean reports whether the agent's middleware would leave a pipeline unchanged. Text that it would remove must not reach other agents as
// an example.
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

func (p *promoter) logError(op string, err error) {
	p.logger.Warn("composite tools", zap.String("op", op), zap.Error(err))
}
