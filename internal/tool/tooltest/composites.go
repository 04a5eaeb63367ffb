package tooltest

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

// ExerciseComposites runs the suite of [tool.Composites]. newStore returns a store in which [Tenant] and [OtherTenant] have no composites.
// If the store has a method ChangeComposite(ctx, tenant, nameOrID, change), the suite also checks that a person's changes stay.
//
// Besides what [tool.Composites] says, the suite checks:
//
//   - A tenant's key counts once. A call with the same key returns the uses without counting again.
//   - Samples are distinct JSON values, the one that was used last first, even if it had been used before. Numbers keep their digits.
//   - The store sets a composite's ID and its times. The uses of a composite are those of its shape.
//   - SaveComposite stores version 1 if the shape has no composite, or version n+1 after version n. It ignores any other version, and returns
//     the stored composite.
//   - The name, the switch and a person's description of a composite stay.
//   - Earlier versions can be read. They have their parameters and pipeline, but the current name, description and switch.
func ExerciseComposites(t *testing.T, newStore func(t *testing.T) tool.Composites) {
	t.Helper()
	tests := map[string]func(t *testing.T, s tool.Composites){
		"a call counts once":                   checkUseCountsOnce,
		"calls at once count once each":        checkConcurrentUses,
		"tenants are isolated":                 checkTenantsAreApart,
		"samples are different, the newest 16": checkSamples,
		"samples keep digits":                  checkDigitsAreKept,
		"the first save is version 1":          checkFirstSave,
		"a taken name gets a number":           checkTakenName,
		"uses are those of the shape":          checkUsesOfShape,
		"the next version keeps the earlier":   checkNextVersion,
		"a late save changes nothing":          checkLateSave,
		"concurrent saves store one version":   checkConcurrentSaves,
		"a missing version is not found":       checkNotFound,
		"a list is by name, for its tenant":    checkListIsByName,
		"a person's changes stay":              checkChangedByPerson,
		"an ended context is an error":         checkEndedContext,
		"a disabled composite is listed":       checkDisabledIsListed,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, newStore(t)) })
	}
}

// changer is a store in which people change composites.
type changer interface {
	ChangeComposite(ctx context.Context, tenant, nameOrID string, change agent.CompositeChange) (agent.Composite, error)
}

func shapeOf(n int) string { return fmt.Sprintf("sha256:%064x", n) }

func stepsFrom(origin string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`[{"params":{"origin":%q},"step":"http_request","url":"https://api.example.com/flights"}]`, origin))
}

func usePipeline(t *testing.T, s tool.Composites, tenant, key string, shape int, origin string) agent.PipelineUses {
	t.Helper()
	uses, err := s.UsePipeline(t.Context(), agent.PipelineUse{Tenant: tenant, Key: key, Shape: shapeOf(shape), Steps: stepsFrom(origin)})
	require.NoError(t, err)
	return uses
}

// newComposite returns a composite as a promotion saves it.
func newComposite(tenant, name string, shape int, version int64) agent.Composite {
	return agent.Composite{
		Tenant: tenant, Name: name, Description: "Fetches flights.", Shape: shapeOf(shape), Version: version, Enabled: true, EffectFree: true,
		Parameters: json.RawMessage(`{"type":"object","properties":{"origin":{"type":"string"}},"required":["origin"],"additionalProperties":false}`),
		Pipeline:   json.RawMessage(`[{"params":{"origin":{"$parameter":"origin"}},"step":"http_request","url":"https://api.example.com/flights"}]`),
	}
}

func saveComposite(t *testing.T, s tool.Composites, c agent.Composite) agent.Composite {
	t.Helper()
	stored, err := s.SaveComposite(t.Context(), c)
	require.NoError(t, err)
	return stored
}

// requireComposite compares a composite with the saved one, except for the fields that the store sets.
func requireComposite(t *testing.T, want, got agent.Composite) {
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

func checkUseCountsOnce(t *testing.T, s tool.Composites) {
	t.Helper()
	require.EqualValues(t, 1, usePipeline(t, s, Tenant, "k1", 1, "NYC").Count)
	again := usePipeline(t, s, Tenant, "k1", 1, "NYC")
	require.EqualValues(t, 1, again.Count)
	require.Len(t, again.Samples, 1)
	require.Nil(t, again.Composite)
	require.EqualValues(t, 2, usePipeline(t, s, Tenant, "k2", 1, "NYC").Count)
	require.EqualValues(t, 1, usePipeline(t, s, Tenant, "k3", 2, "NYC").Count, "another shape counts for itself")
}

func checkConcurrentUses(t *testing.T, s tool.Composites) {
	t.Helper()
	const calls, times = 12, 3
	var all sync.WaitGroup
	errs := make([]error, calls*times)
	for i := range errs {
		all.Go(func() {
			_, errs[i] = s.UsePipeline(t.Context(), agent.PipelineUse{
				Tenant: Tenant, Key: fmt.Sprintf("k%d", i%calls), Shape: shapeOf(1), Steps: stepsFrom(fmt.Sprintf("A%d", i%calls)),
			})
		})
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	uses := usePipeline(t, s, Tenant, "last", 1, "A0")
	require.EqualValues(t, calls+1, uses.Count)
	require.Len(t, uses.Samples, calls)
}

func checkTenantsAreApart(t *testing.T, s tool.Composites) {
	t.Helper()
	usePipeline(t, s, Tenant, "k", 1, "NYC")
	saveComposite(t, s, newComposite(Tenant, "fetch_flights", 1, 1))
	uses := usePipeline(t, s, OtherTenant, "k", 1, "BER")
	require.EqualValues(t, 1, uses.Count, "the same key is another call of another tenant")
	require.Len(t, uses.Samples, 1)
	require.JSONEq(t, string(stepsFrom("BER")), string(uses.Samples[0]))
	require.Nil(t, uses.Composite)
	theirs := saveComposite(t, s, newComposite(OtherTenant, "fetch_flights", 1, 1))
	require.Equal(t, "fetch_flights", theirs.Name, "names are once in a tenant")
	_, err := s.Composite(t.Context(), Tenant, theirs.ID, 1)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
}

func checkSamples(t *testing.T, s tool.Composites) {
	t.Helper()
	usePipeline(t, s, Tenant, "a", 1, "A")
	usePipeline(t, s, Tenant, "b", 1, "B")
	uses := usePipeline(t, s, Tenant, "c", 1, "A")
	require.EqualValues(t, 3, uses.Count)
	require.Len(t, uses.Samples, 2)
	require.JSONEq(t, string(stepsFrom("A")), string(uses.Samples[0]), "what was used last is first")
	require.JSONEq(t, string(stepsFrom("B")), string(uses.Samples[1]))
	for i := range 20 {
		uses = usePipeline(t, s, Tenant, fmt.Sprintf("n%d", i), 1, fmt.Sprintf("N%d", i))
	}
	require.EqualValues(t, 23, uses.Count)
	require.Len(t, uses.Samples, 16)
	for i, sample := range uses.Samples {
		require.JSONEq(t, string(stepsFrom(fmt.Sprintf("N%d", 19-i))), string(sample))
	}
}

func checkDigitsAreKept(t *testing.T, s tool.Composites) {
	t.Helper()
	steps := `[{"condition":{"field":"id","op":"=","value":9007199254740993},"step":"table_filter"}]`
	uses, err := s.UsePipeline(t.Context(), agent.PipelineUse{Tenant: Tenant, Key: "k", Shape: shapeOf(1), Steps: json.RawMessage(steps)})
	require.NoError(t, err)
	require.Len(t, uses.Samples, 1)
	require.Contains(t, string(uses.Samples[0]), "9007199254740993")
}

func checkFirstSave(t *testing.T, s tool.Composites) {
	t.Helper()
	c := newComposite(Tenant, "fetch_flights", 1, 1)
	stored := saveComposite(t, s, c)
	requireComposite(t, c, stored)
	usePipeline(t, s, Tenant, "k", 1, "NYC")
	uses := usePipeline(t, s, Tenant, "k2", 1, "NYC")
	require.NotNil(t, uses.Composite)
	requireComposite(t, c, *uses.Composite)
	require.Equal(t, stored.ID, uses.Composite.ID)
	loaded, err := s.Composite(t.Context(), Tenant, stored.ID, 1)
	require.NoError(t, err)
	requireComposite(t, c, loaded)
}

func checkTakenName(t *testing.T, s tool.Composites) {
	t.Helper()
	long := strings.Repeat("x", 64)
	seen := map[string]bool{}
	for i, name := range []string{"fetch_flights", "fetch_flights", "fetch_flights", long, long} {
		stored := saveComposite(t, s, newComposite(Tenant, name, i, 1))
		require.Regexp(t, `^[a-z0-9_]{1,64}$`, stored.Name)
		require.False(t, seen[stored.Name], "%q is there twice", stored.Name)
		require.True(t, strings.HasPrefix(stored.Name, name[:10]), stored.Name)
		seen[stored.Name] = true
	}
	require.True(t, seen["fetch_flights"])
	require.True(t, seen[long])
}

func checkUsesOfShape(t *testing.T, s tool.Composites) {
	t.Helper()
	usePipeline(t, s, Tenant, "a", 1, "A")
	usePipeline(t, s, Tenant, "b", 1, "B")
	stored := saveComposite(t, s, newComposite(Tenant, "fetch_flights", 1, 1))
	require.EqualValues(t, 2, stored.Uses)
	require.EqualValues(t, 3, usePipeline(t, s, Tenant, "c", 1, "A").Composite.Uses)
	list, err := s.Composites(t.Context(), Tenant)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.EqualValues(t, 3, list[0].Uses)
}

func checkNextVersion(t *testing.T, s tool.Composites) {
	t.Helper()
	first := saveComposite(t, s, newComposite(Tenant, "fetch_flights", 1, 1))
	next := newComposite(Tenant, "another_name", 1, 2)
	next.Parameters, next.Description = json.RawMessage(`{"type":"object"}`), "Fetches more."
	stored := saveComposite(t, s, next)
	require.EqualValues(t, 2, stored.Version)
	require.Equal(t, first.ID, stored.ID)
	require.Equal(t, "fetch_flights", stored.Name, "the name stays")
	require.JSONEq(t, `{"type":"object"}`, string(stored.Parameters))
	old, err := s.Composite(t.Context(), Tenant, first.ID, 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, old.Version)
	require.JSONEq(t, string(first.Parameters), string(old.Parameters))
	newest, err := s.Composite(t.Context(), Tenant, first.ID, 2)
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object"}`, string(newest.Parameters))
	list, err := s.Composites(t.Context(), Tenant)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.EqualValues(t, 2, list[0].Version)
}

func checkLateSave(t *testing.T, s tool.Composites) {
	t.Helper()
	first := saveComposite(t, s, newComposite(Tenant, "fetch_flights", 1, 1))
	for _, version := range []int64{1, 3} {
		late := newComposite(Tenant, "fetch_flights", 1, version)
		late.Pipeline = json.RawMessage(`[]`)
		stored := saveComposite(t, s, late)
		require.EqualValues(t, 1, stored.Version, "version %d is not the next", version)
		require.Equal(t, first.ID, stored.ID)
		require.JSONEq(t, string(first.Pipeline), string(stored.Pipeline))
	}
}

func checkConcurrentSaves(t *testing.T, s tool.Composites) {
	t.Helper()
	const savers = 8
	for version := int64(1); version <= 3; version++ {
		var all sync.WaitGroup
		stored, errs := make([]agent.Composite, savers), make([]error, savers)
		for i := range savers {
			all.Go(func() {
				c := newComposite(Tenant, "fetch_flights", 1, version)
				c.Pipeline = json.RawMessage(fmt.Sprintf(`[{"k":%d,"step":"top_k"}]`, i+1))
				stored[i], errs[i] = s.SaveComposite(t.Context(), c)
			})
		}
		all.Wait()
		for i := range savers {
			require.NoError(t, errs[i])
			require.Equal(t, version, stored[i].Version)
			require.Equal(t, stored[0].ID, stored[i].ID)
			require.JSONEq(t, string(stored[0].Pipeline), string(stored[i].Pipeline), "all are told what the first one stored")
		}
	}
	list, err := s.Composites(t.Context(), Tenant)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func checkNotFound(t *testing.T, s tool.Composites) {
	t.Helper()
	stored := saveComposite(t, s, newComposite(Tenant, "fetch_flights", 1, 1))
	for _, c := range []struct {
		tenant, id string
		version    int64
	}{{Tenant, stored.ID, 2}, {Tenant, stored.ID, 0}, {Tenant, "nope", 1}, {Tenant, "", 1}, {OtherTenant, stored.ID, 1}} {
		_, err := s.Composite(t.Context(), c.tenant, c.id, c.version)
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "%+v: %v", c, err)
	}
}

func checkListIsByName(t *testing.T, s tool.Composites) {
	t.Helper()
	empty, err := s.Composites(t.Context(), Tenant)
	require.NoError(t, err)
	require.Empty(t, empty)
	for i, name := range []string{"b_flights", "a_flights", "c_flights"} {
		saveComposite(t, s, newComposite(Tenant, name, i, 1))
	}
	saveComposite(t, s, newComposite(OtherTenant, "d_flights", 4, 1))
	list, err := s.Composites(t.Context(), Tenant)
	require.NoError(t, err)
	var names []string
	for i := range list {
		names = append(names, list[i].Name)
	}
	require.Equal(t, []string{"a_flights", "b_flights", "c_flights"}, names)
}

func checkChangedByPerson(t *testing.T, s tool.Composites) {
	t.Helper()
	people, ok := s.(changer)
	if !ok {
		return
	}
	first := saveComposite(t, s, newComposite(Tenant, "fetch_flights", 1, 1))
	name, words, off := "cheap_flights", "Flights as I like them.", false
	_, err := people.ChangeComposite(t.Context(), Tenant, first.Name, agent.CompositeChange{Name: &name, Description: &words, Enabled: &off})
	require.NoError(t, err)
	next := newComposite(Tenant, "fetch_flights", 1, 2)
	next.Pipeline = json.RawMessage(`[]`)
	stored := saveComposite(t, s, next)
	require.EqualValues(t, 2, stored.Version, "a person's change makes no version")
	require.Equal(t, name, stored.Name)
	require.Equal(t, words, stored.Description)
	require.False(t, stored.Enabled)
	require.JSONEq(t, `[]`, string(stored.Pipeline))
	require.Equal(t, "fetch_flights", saveComposite(t, s, newComposite(Tenant, "fetch_flights", 2, 1)).Name, "the name that was given up is free")
}

func checkDisabledIsListed(t *testing.T, s tool.Composites) {
	t.Helper()
	c := newComposite(Tenant, "fetch_flights", 1, 1)
	c.Enabled = false
	require.False(t, saveComposite(t, s, c).Enabled)
	list, err := s.Composites(t.Context(), Tenant)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.False(t, list[0].Enabled)
}

func checkEndedContext(t *testing.T, s tool.Composites) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.UsePipeline(ctx, agent.PipelineUse{Tenant: Tenant, Key: "k", Shape: shapeOf(1), Steps: stepsFrom("A")})
	require.Error(t, err)
	_, err = s.SaveComposite(ctx, newComposite(Tenant, "fetch_flights", 1, 1))
	require.Error(t, err)
	_, err = s.Composites(ctx, Tenant)
	require.Error(t, err)
}
