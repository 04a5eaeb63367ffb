package compositetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The tenants of the suite.
const (
	acme  = "acme"
	other = "other"
)

// Exercise runs the suite. newStore gives an empty store for each test, or one in which nobody else has these tenants. Where the store
// has a method ChangeComposite(ctx, tenant, nameOrID, change), what a person changed is held to stay.
func Exercise(t *testing.T, newStore func(t *testing.T) tool.Composites) {
	t.Helper()
	tests := map[string]func(t *testing.T, s tool.Composites){
		"a call counts once":                    countsOnce,
		"calls at once count once each":         countsAtOnce,
		"tenants do not share":                  tenantsApart,
		"samples are different, the newest 16":  samples,
		"samples keep digits":                   digits,
		"the first save is version 1":           firstSave,
		"a taken name gets a number":            takenName,
		"uses are those of the shape":           usesOfShape,
		"the next version keeps the earlier":    nextVersion,
		"who was slower changes nothing":        slower,
		"saves at once make one":                savesAtOnce,
		"what is not there is not found":        notFound,
		"a list is by name, for its tenant":     listed,
		"what a person changed stays":           changed,
		"an ended context is an error":          ended,
		"a disabled composite is listed as one": disabled,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, newStore(t)) })
	}
}

// changer is a store that people change composites in.
type changer interface {
	ChangeComposite(ctx context.Context, tenant, nameOrID string, change agent.CompositeChange) (agent.Composite, error)
}

func shapeOf(n int) string { return fmt.Sprintf("sha256:%064x", n) }

func stepsOf(origin string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`[{"params":{"origin":%q},"step":"http_request","url":"https://api.example.com/flights"}]`, origin))
}

func use(t *testing.T, s tool.Composites, tenant, key string, shape int, origin string) agent.PipelineUses {
	t.Helper()
	uses, err := s.UsePipeline(t.Context(), agent.PipelineUse{Tenant: tenant, Key: key, Shape: shapeOf(shape), Steps: stepsOf(origin)})
	require.NoError(t, err)
	return uses
}

// made is what a promotion saves.
func made(tenant, name string, shape int, version int64) agent.Composite {
	return agent.Composite{
		Tenant: tenant, Name: name, Description: "Fetches flights.", Shape: shapeOf(shape), Version: version, Enabled: true, EffectFree: true,
		Parameters: json.RawMessage(`{"type":"object","properties":{"origin":{"type":"string"}},"required":["origin"],"additionalProperties":false}`),
		Pipeline:   json.RawMessage(`[{"params":{"origin":{"$parameter":"origin"}},"step":"http_request","url":"https://api.example.com/flights"}]`),
	}
}

func save(t *testing.T, s tool.Composites, c agent.Composite) agent.Composite {
	t.Helper()
	stored, err := s.SaveComposite(t.Context(), c)
	require.NoError(t, err)
	return stored
}

// same holds a composite to what was saved, but for what the store makes.
func same(t *testing.T, want, got agent.Composite) {
	t.Helper()
	require.NotEmpty(t, got.ID)
	require.False(t, got.CreatedAt.IsZero())
	require.False(t, got.UpdatedAt.Before(got.CreatedAt))
	require.JSONEq(t, string(want.Parameters), string(got.Parameters))
	require.JSONEq(t, string(want.Pipeline), string(got.Pipeline))
	want.ID, want.CreatedAt, want.UpdatedAt, want.Uses = got.ID, got.CreatedAt, got.UpdatedAt, got.Uses
	want.Parameters, want.Pipeline = got.Parameters, got.Pipeline
	require.Equal(t, want, got)
}

func countsOnce(t *testing.T, s tool.Composites) {
	t.Helper()
	require.EqualValues(t, 1, use(t, s, acme, "k1", 1, "NYC").Count)
	again := use(t, s, acme, "k1", 1, "NYC")
	require.EqualValues(t, 1, again.Count)
	require.Len(t, again.Samples, 1)
	require.Nil(t, again.Composite)
	require.EqualValues(t, 2, use(t, s, acme, "k2", 1, "NYC").Count)
	require.EqualValues(t, 1, use(t, s, acme, "k3", 2, "NYC").Count, "another shape counts for itself")
}

func countsAtOnce(t *testing.T, s tool.Composites) {
	t.Helper()
	const calls, times = 12, 3
	var all sync.WaitGroup
	faults := make([]error, calls*times)
	for i := range faults {
		all.Go(func() {
			_, faults[i] = s.UsePipeline(t.Context(), agent.PipelineUse{
				Tenant: acme, Key: fmt.Sprintf("k%d", i%calls), Shape: shapeOf(1), Steps: stepsOf(fmt.Sprintf("A%d", i%calls)),
			})
		})
	}
	all.Wait()
	for _, err := range faults {
		require.NoError(t, err)
	}
	uses := use(t, s, acme, "last", 1, "A0")
	require.EqualValues(t, calls+1, uses.Count)
	require.Len(t, uses.Samples, calls)
}

func tenantsApart(t *testing.T, s tool.Composites) {
	t.Helper()
	use(t, s, acme, "k", 1, "NYC")
	save(t, s, made(acme, "fetch_flights", 1, 1))
	uses := use(t, s, other, "k", 1, "BER")
	require.EqualValues(t, 1, uses.Count, "the same key is another call of another tenant")
	require.Len(t, uses.Samples, 1)
	require.JSONEq(t, string(stepsOf("BER")), string(uses.Samples[0]))
	require.Nil(t, uses.Composite)
	theirs := save(t, s, made(other, "fetch_flights", 1, 1))
	require.Equal(t, "fetch_flights", theirs.Name, "names are once in a tenant")
	_, err := s.Composite(t.Context(), acme, theirs.ID, 1)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
}

func samples(t *testing.T, s tool.Composites) {
	t.Helper()
	use(t, s, acme, "a", 1, "A")
	use(t, s, acme, "b", 1, "B")
	uses := use(t, s, acme, "c", 1, "A")
	require.EqualValues(t, 3, uses.Count)
	require.Len(t, uses.Samples, 2)
	require.JSONEq(t, string(stepsOf("A")), string(uses.Samples[0]), "what was used last is first")
	require.JSONEq(t, string(stepsOf("B")), string(uses.Samples[1]))
	for i := range 20 {
		uses = use(t, s, acme, fmt.Sprintf("n%d", i), 1, fmt.Sprintf("N%d", i))
	}
	require.EqualValues(t, 23, uses.Count)
	require.Len(t, uses.Samples, 16)
	for i, sample := range uses.Samples {
		require.JSONEq(t, string(stepsOf(fmt.Sprintf("N%d", 19-i))), string(sample))
	}
}

func digits(t *testing.T, s tool.Composites) {
	t.Helper()
	steps := `[{"condition":{"field":"id","op":"=","value":9007199254740993},"step":"table_filter"}]`
	uses, err := s.UsePipeline(t.Context(), agent.PipelineUse{Tenant: acme, Key: "k", Shape: shapeOf(1), Steps: json.RawMessage(steps)})
	require.NoError(t, err)
	require.Len(t, uses.Samples, 1)
	require.Contains(t, string(uses.Samples[0]), "9007199254740993")
}

func firstSave(t *testing.T, s tool.Composites) {
	t.Helper()
	c := made(acme, "fetch_flights", 1, 1)
	stored := save(t, s, c)
	same(t, c, stored)
	use(t, s, acme, "k", 1, "NYC")
	uses := use(t, s, acme, "k2", 1, "NYC")
	require.NotNil(t, uses.Composite)
	same(t, c, *uses.Composite)
	require.Equal(t, stored.ID, uses.Composite.ID)
	loaded, err := s.Composite(t.Context(), acme, stored.ID, 1)
	require.NoError(t, err)
	same(t, c, loaded)
}

func takenName(t *testing.T, s tool.Composites) {
	t.Helper()
	long := strings.Repeat("x", 64)
	seen := map[string]bool{}
	for i, name := range []string{"fetch_flights", "fetch_flights", "fetch_flights", long, long} {
		stored := save(t, s, made(acme, name, i, 1))
		require.Regexp(t, `^[a-z0-9_]{1,64}$`, stored.Name)
		require.False(t, seen[stored.Name], "%q is there twice", stored.Name)
		require.True(t, strings.HasPrefix(stored.Name, name[:10]), stored.Name)
		seen[stored.Name] = true
	}
	require.True(t, seen["fetch_flights"])
	require.True(t, seen[long])
}

func usesOfShape(t *testing.T, s tool.Composites) {
	t.Helper()
	use(t, s, acme, "a", 1, "A")
	use(t, s, acme, "b", 1, "B")
	stored := save(t, s, made(acme, "fetch_flights", 1, 1))
	require.EqualValues(t, 2, stored.Uses)
	require.EqualValues(t, 3, use(t, s, acme, "c", 1, "A").Composite.Uses)
	list, err := s.Composites(t.Context(), acme)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.EqualValues(t, 3, list[0].Uses)
}

func nextVersion(t *testing.T, s tool.Composites) {
	t.Helper()
	first := save(t, s, made(acme, "fetch_flights", 1, 1))
	next := made(acme, "another_name", 1, 2)
	next.Parameters, next.Description = json.RawMessage(`{"type":"object"}`), "Fetches more."
	stored := save(t, s, next)
	require.EqualValues(t, 2, stored.Version)
	require.Equal(t, first.ID, stored.ID)
	require.Equal(t, "fetch_flights", stored.Name, "the name stays")
	require.JSONEq(t, `{"type":"object"}`, string(stored.Parameters))
	old, err := s.Composite(t.Context(), acme, first.ID, 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, old.Version)
	require.JSONEq(t, string(first.Parameters), string(old.Parameters))
	newest, err := s.Composite(t.Context(), acme, first.ID, 2)
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object"}`, string(newest.Parameters))
	list, err := s.Composites(t.Context(), acme)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.EqualValues(t, 2, list[0].Version)
}

func slower(t *testing.T, s tool.Composites) {
	t.Helper()
	first := save(t, s, made(acme, "fetch_flights", 1, 1))
	for _, version := range []int64{1, 3} {
		late := made(acme, "fetch_flights", 1, version)
		late.Pipeline = json.RawMessage(`[]`)
		stored := save(t, s, late)
		require.EqualValues(t, 1, stored.Version, "version %d is not the next", version)
		require.Equal(t, first.ID, stored.ID)
		require.JSONEq(t, string(first.Pipeline), string(stored.Pipeline))
	}
}

func savesAtOnce(t *testing.T, s tool.Composites) {
	t.Helper()
	const savers = 8
	for version := int64(1); version <= 3; version++ {
		var all sync.WaitGroup
		stored, faults := make([]agent.Composite, savers), make([]error, savers)
		for i := range savers {
			all.Go(func() {
				c := made(acme, "fetch_flights", 1, version)
				c.Pipeline = json.RawMessage(fmt.Sprintf(`[{"k":%d,"step":"top_k"}]`, i+1))
				stored[i], faults[i] = s.SaveComposite(t.Context(), c)
			})
		}
		all.Wait()
		for i := range savers {
			require.NoError(t, faults[i])
			require.Equal(t, version, stored[i].Version)
			require.Equal(t, stored[0].ID, stored[i].ID)
			require.JSONEq(t, string(stored[0].Pipeline), string(stored[i].Pipeline), "all are told what the first one stored")
		}
	}
	list, err := s.Composites(t.Context(), acme)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func notFound(t *testing.T, s tool.Composites) {
	t.Helper()
	stored := save(t, s, made(acme, "fetch_flights", 1, 1))
	for _, c := range []struct {
		tenant, id string
		version    int64
	}{{acme, stored.ID, 2}, {acme, stored.ID, 0}, {acme, "nope", 1}, {acme, "", 1}, {other, stored.ID, 1}} {
		_, err := s.Composite(t.Context(), c.tenant, c.id, c.version)
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "%+v: %v", c, err)
	}
}

func listed(t *testing.T, s tool.Composites) {
	t.Helper()
	empty, err := s.Composites(t.Context(), acme)
	require.NoError(t, err)
	require.Empty(t, empty)
	for i, name := range []string{"b_flights", "a_flights", "c_flights"} {
		save(t, s, made(acme, name, i, 1))
	}
	save(t, s, made(other, "d_flights", 4, 1))
	list, err := s.Composites(t.Context(), acme)
	require.NoError(t, err)
	var names []string
	for i := range list {
		names = append(names, list[i].Name)
	}
	require.Equal(t, []string{"a_flights", "b_flights", "c_flights"}, names)
}

func changed(t *testing.T, s tool.Composites) {
	t.Helper()
	people, ok := s.(changer)
	if !ok {
		return // it is not for people
	}
	first := save(t, s, made(acme, "fetch_flights", 1, 1))
	name, words, off := "cheap_flights", "Flights as I like them.", false
	_, err := people.ChangeComposite(t.Context(), acme, first.Name, agent.CompositeChange{Name: &name, Description: &words, Enabled: &off})
	require.NoError(t, err)
	next := made(acme, "fetch_flights", 1, 2)
	next.Pipeline = json.RawMessage(`[]`)
	stored := save(t, s, next)
	require.EqualValues(t, 2, stored.Version, "a person's change makes no version")
	require.Equal(t, name, stored.Name)
	require.Equal(t, words, stored.Description)
	require.False(t, stored.Enabled)
	require.JSONEq(t, `[]`, string(stored.Pipeline))
	require.Equal(t, "fetch_flights", save(t, s, made(acme, "fetch_flights", 2, 1)).Name, "the name that was given up is free")
}

func disabled(t *testing.T, s tool.Composites) {
	t.Helper()
	c := made(acme, "fetch_flights", 1, 1)
	c.Enabled = false
	require.False(t, save(t, s, c).Enabled)
	list, err := s.Composites(t.Context(), acme)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.False(t, list[0].Enabled)
}

func ended(t *testing.T, s tool.Composites) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.UsePipeline(ctx, agent.PipelineUse{Tenant: acme, Key: "k", Shape: shapeOf(1), Steps: stepsOf("A")})
	require.Error(t, err)
	_, err = s.SaveComposite(ctx, made(acme, "fetch_flights", 1, 1))
	require.Error(t, err)
	_, err = s.Composites(ctx, acme)
	require.Error(t, err)
}
