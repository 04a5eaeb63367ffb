package catalog

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// publishAll compiles the agents that changed and stores their plans.
func (r *Registry) publishAll(ctx context.Context, candidate *snapshot, p *plannedChange) error {
	for _, c := range p.changes {
		k := c.DocumentKey
		e := candidate.docs[k]
		if k.Kind != agent.KindAgent || e == nil || c.Action == agent.ActionDeleted {
			continue
		}
		if known, ok := candidate.artifacts[agentKey{k.Tenant, k.Name}]; ok && known.Inputs == r.compiled(candidate, e).inputs {
			continue
		}
		a, err := r.artifact(ctx, candidate, e)
		if err != nil {
			return err
		}
		p.commit.Publish = append(p.commit.Publish, a)
	}
	return nil
}

// artifact stores the plan of an agent.
func (r *Registry) artifact(ctx context.Context, s *snapshot, e *entry) (agent.Artifact, error) {
	c := r.compiled(s, e)
	if err := c.err(); err != nil {
		return agent.Artifact{}, err
	}
	body := c.body
	if len(body) == 0 { // hydrated: only the hash is known
		var err error
		if body, err = r.cache.Bytes(ctx, c.hash); err != nil {
			return agent.Artifact{}, err
		}
	}
	uri, err := r.savePlan(ctx, c.hash, &c.plan, body)
	if err != nil {
		return agent.Artifact{}, err
	}
	c.saved.Store(true)
	return agent.Artifact{
		Tenant: e.doc.Tenant, Agent: e.doc.Name, URI: uri, Hash: c.hash, Inputs: c.inputs, CompiledAt: time.Now().UTC().Truncate(time.Millisecond),
	}, nil
}

// Publish compiles an agent and stores its plan, so that runtimes find it by its hash. It changes nothing if that plan is published already.
func (r *Registry) Publish(ctx context.Context, tenant, name, by string) (agent.AgentInfo, error) {
	unlock, err := r.lockChanges(ctx, "publish")
	if err != nil {
		return agent.AgentInfo{}, err
	}
	defer unlock()
	return atNewest(ctx, r, func(s *snapshot) (agent.AgentInfo, error) { return r.publish(ctx, s, tenant, name, by) })
}

// publish makes one attempt.
func (r *Registry) publish(ctx context.Context, s *snapshot, tenant, name, by string) (agent.AgentInfo, error) {
	e := s.agent(tenant, name)
	if e == nil {
		return agent.AgentInfo{}, unknownAgent(name)
	}
	if info := r.agentInfo(s, e, tenant); info.Artifact != nil {
		return info, nil
	}
	a, err := r.artifact(ctx, s, e)
	if err != nil {
		return agent.AgentInfo{}, err
	}
	c := agent.CatalogCommit{At: s.revision, By: by, Source: agent.SourceAPI, Publish: []agent.Artifact{a}}
	if _, err = r.commit(ctx, &c, agent.ApplyResult{}); err != nil {
		return agent.AgentInfo{}, err
	}
	s = r.current.Load()
	if e = s.agent(tenant, name); e == nil {
		return agent.AgentInfo{}, unknownAgent(name)
	}
	return r.agentInfo(s, e, tenant), nil
}
