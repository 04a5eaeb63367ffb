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
		published, ok := candidate.artifacts[agentKey{k.Tenant, k.Name}]
		if ok && published.Inputs == r.compiled(candidate, e).inputs {
			continue
		}
		a, err := r.storeArtifact(ctx, candidate, e)
		if err != nil {
			return err
		}
		p.commit.Publish = append(p.commit.Publish, a)
	}
	return nil
}

// storeArtifact compiles an agent, stores its plan and returns the reference to it.
func (r *Registry) storeArtifact(ctx context.Context, s *snapshot, e *entry) (agent.Artifact, error) {
	c := r.compiled(s, e)
	if err := c.faults.Err(); err != nil {
		return agent.Artifact{}, err
	}
	body := c.body
	if len(body) == 0 { // the plan came from the cache, without its bytes
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

// Publish compiles an agent and stores its plan, so that other processes find the plan by its hash. It changes nothing if the plan is
// already published.
func (r *Registry) Publish(ctx context.Context, tenant, name, by string) (agent.AgentInfo, error) {
	release, err := r.applying.acquire(ctx, "publish")
	if err != nil {
		return agent.AgentInfo{}, err
	}
	defer release()
	return retryStale(ctx, r, func(s *snapshot) (agent.AgentInfo, error) { return r.publish(ctx, s, tenant, name, by) })
}

// publish makes one attempt of [Registry.Publish] against a snapshot.
func (r *Registry) publish(ctx context.Context, s *snapshot, tenant, name, by string) (agent.AgentInfo, error) {
	e := s.agent(tenant, name)
	if e == nil {
		return agent.AgentInfo{}, unknownAgent(name)
	}
	if info := r.agentInfo(s, e, tenant); info.Artifact != nil {
		return info, nil
	}
	a, err := r.storeArtifact(ctx, s, e)
	if err != nil {
		return agent.AgentInfo{}, err
	}
	c := agent.CatalogCommit{At: s.revision, By: by, Source: agent.SourceAPI, Publish: []agent.Artifact{a}}
	if _, err = r.commit(ctx, &c, agent.ApplyResult{}); err != nil {
		return agent.AgentInfo{}, err
	}
	s = r.current.Load()
	e = s.agent(tenant, name)
	if e == nil {
		return agent.AgentInfo{}, unknownAgent(name)
	}
	return r.agentInfo(s, e, tenant), nil
}
