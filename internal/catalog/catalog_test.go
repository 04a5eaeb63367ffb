package catalog_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog"
)

type store map[string][]byte

func (s store) SavePlan(_ context.Context, hash string, body []byte) error {
	s[hash] = body
	return nil
}

func (s store) Plan(_ context.Context, hash string) ([]byte, error) {
	if b, ok := s[hash]; ok {
		return b, nil
	}
	return nil, agent.Errorf(agent.CodeNotFound, "", "no plan %s", hash)
}

func plan(name, system string) agent.Plan {
	return agent.Plan{
		Agent: name, System: system, Models: []agent.PlanModel{{Profile: "default", Model: "m"}},
		Tools: []agent.PlanTool{{Spec: agent.ToolSpec{Name: "t", Parameters: json.RawMessage(`{"b":1, "a":2}`)}}},
	}
}

func TestResolve(t *testing.T) {
	s := store{}
	r, err := catalog.New(s, plan("one", "x"), plan("two", "y"))
	require.NoError(t, err)
	p, hash, err := r.Resolve(t.Context(), "any", "")
	require.NoError(t, err)
	require.Equal(t, "one", p.Agent)
	require.Contains(t, s, hash, "a plan in use can be found later")
	p, _, err = r.Resolve(t.Context(), "any", "two")
	require.NoError(t, err)
	require.Equal(t, "two", p.Agent)

	_, _, err = r.Resolve(t.Context(), "any", "three")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	require.ErrorContains(t, err, `agent: there is no agent "three"`)
}

func TestPlanOutlivesItsRegistry(t *testing.T) {
	s := store{}
	old, err := catalog.New(s, plan("one", "before"))
	require.NoError(t, err)
	_, hash, err := old.Resolve(t.Context(), "", "one")
	require.NoError(t, err)

	r, err := catalog.New(s, plan("one", "after"))
	require.NoError(t, err)
	p, err := r.Plan(t.Context(), hash)
	require.NoError(t, err)
	require.Equal(t, "before", p.System)

	s[hash] = []byte(`{"schema":"plan.v1"}`)
	r, err = catalog.New(s, plan("one", "after"))
	require.NoError(t, err)
	_, err = r.Plan(t.Context(), hash)
	require.ErrorContains(t, err, "has hash", "a plan that was changed is refused")
}

func TestHashIsCanonical(t *testing.T) {
	a, b := plan("one", "x"), plan("one", "x")
	b.Tools[0].Spec.Parameters = json.RawMessage(`{"a":2,"b":1}`)
	_, ha, err := catalog.Compile(a)
	require.NoError(t, err)
	_, hb, err := catalog.Compile(b)
	require.NoError(t, err)
	require.Equal(t, ha, hb)
	_, hc, err := catalog.Compile(plan("one", "z"))
	require.NoError(t, err)
	require.NotEqual(t, ha, hc)
}
