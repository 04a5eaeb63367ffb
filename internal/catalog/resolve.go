package catalog

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// Resolve returns the current plan of an agent and its hash. It saves the plan under the hash first. Its error is [agent.CodeNotFound] with
// Field "agent" if the tenant has no agent of that name, [agent.CodeUnavailable] if this process cannot compile it: a worker of another release
// may.
func (r *Registry) Resolve(ctx context.Context, tenant, name string) (agent.Plan, string, error) {
	s := r.current.Load()
	e := s.agent(tenant, name)
	if e == nil {
		return agent.Plan{}, "", unknownAgent(name)
	}
	c := r.publishedOrCompiled(ctx, s, e)
	if len(c.faults) > 0 {
		return agent.Plan{}, "", &agent.Error{Code: agent.CodeUnavailable, Op: fmt.Sprintf("compile agent %q", name), Field: "agent", Err: c.faults}
	}
	if !c.saved.Load() {
		if _, err := r.savePlan(ctx, c.hash, &c.plan, c.body); err != nil {
			return agent.Plan{}, "", err
		}
		c.saved.Store(true)
	}
	return c.plan, c.hash, nil
}

// ReplacePrompt returns a copy of a plan with another system prompt, and its hash. It saves the copy under the hash; the catalog does not list
// it. The error is [agent.CodeInvalid] with Field "prompt" if the plan has a prompt for each kind of message, or the copy is too large.
func (r *Registry) ReplacePrompt(ctx context.Context, plan agent.Plan, prompt string) (agent.Plan, string, error) {
	for i := range plan.Prepare {
		if len(plan.Prepare[i].Branches) > 0 {
			return agent.Plan{}, "", agent.Invalid("prompt", "agent %q has a prompt for each kind of message, which one prompt cannot replace", plan.Agent)
		}
	}
	plan.System = prompt
	body, hash, err := Encode(&plan)
	if err != nil {
		return agent.Plan{}, "", err
	}
	if len(body) > maxPlan {
		return agent.Plan{}, "", agent.Invalid("prompt", "makes a plan of %d bytes, at most %d", len(body), maxPlan)
	}
	if _, err := r.savePlan(ctx, hash, &plan, body); err != nil {
		return agent.Plan{}, "", err
	}
	return plan, hash, nil
}

// savePlan stores the bytes of a plan, adds the plan to the cache and returns the URI of the stored bytes.
func (r *Registry) savePlan(ctx context.Context, hash string, plan *agent.Plan, body []byte) (uri string, err error) {
	if uri, err = r.cfg.Plans.SavePlan(ctx, body); err != nil {
		return "", fmt.Errorf("save plan: %w", err)
	}
	r.cache.Add(hash, plan, body)
	return uri, nil
}

func unknownAgent(name string) error {
	return agent.FieldErrorf(agent.CodeNotFound, "agent", "there is no agent %q", name)
}

// compiled returns the plan of an agent. It compiles each entry once.
func (r *Registry) compiled(s *snapshot, e *entry) *compiledPlan {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.compiled == nil {
		e.compiled = compile(r.cfg.Parts, e, gather(r.cfg.Parts, s, e))
	}
	return e.compiled
}

// publishedOrCompiled returns the published plan of an agent. It compiles the agent if there is no published plan, if an input has changed
// since, or if the published bytes are missing or wrong.
func (r *Registry) publishedOrCompiled(ctx context.Context, s *snapshot, e *entry) *compiledPlan {
	a, ok := s.artifacts[agentKey{e.doc.Tenant, e.doc.Name}]
	if !ok || e.existingPlan() != nil {
		return r.compiled(s, e)
	}
	in := gather(r.cfg.Parts, s, e)
	digest := in.digest(r.cfg.Parts)
	if digest != a.Inputs {
		return r.compiled(s, e)
	}
	p, err := r.cache.Plan(ctx, a.Hash)
	if err != nil {
		r.cfg.Logger.Warn("published plan cannot be used; compiling", zap.String("agent", e.doc.String()), zap.String("hash", a.Hash), zap.Error(err))
		return r.compiled(s, e)
	}
	c := &compiledPlan{plan: *p, hash: a.Hash, inputs: digest, inputKeys: in.keys, revision: in.revision}
	c.saved.Store(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.compiled == nil {
		e.compiled = c
	}
	return e.compiled
}

// Plan returns the plan with a hash. The plan need not be current.
func (r *Registry) Plan(ctx context.Context, hash string) (agent.Plan, error) {
	p, err := r.cache.Plan(ctx, hash)
	if err != nil {
		return agent.Plan{}, err
	}
	return *p, nil
}

// PlanBody returns the canonical JSON of the plan with a hash.
func (r *Registry) PlanBody(ctx context.Context, hash string) ([]byte, error) {
	return r.cache.Bytes(ctx, hash)
}

// AgentPlan returns the current plan of an agent as canonical JSON, and its hash.
func (r *Registry) AgentPlan(ctx context.Context, tenant, name string) ([]byte, string, error) {
	if name == "" {
		return nil, "", agent.Invalid("agent", "is empty")
	}
	_, hash, err := r.Resolve(ctx, tenant, name)
	if err != nil {
		return nil, "", err
	}
	body, err := r.cache.Bytes(ctx, hash)
	return body, hash, err
}
