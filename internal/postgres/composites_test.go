package postgres_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/definitionstest"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

// truncatedStore returns a function that returns the same store each time, with empty tables.
func truncatedStore(t *testing.T, tables string) func(t *testing.T) *postgres.Store {
	t.Helper()
	b := newBench(t, postgres.Config{})
	return func(t *testing.T) *postgres.Store {
		t.Helper()
		b.exec("TRUNCATE " + tables)
		return b.Store
	}
}

func TestCompositesConform(t *testing.T) {
	open := truncatedStore(t, "composites, composite_versions, pipeline_shapes, pipeline_samples, pipeline_uses")
	tooltest.ExerciseComposites(t, func(t *testing.T) tool.Composites { return open(t) })
}

func TestLibraryConforms(t *testing.T) {
	open := truncatedStore(t, "workflow_definitions, workflow_versions, workflow_requests")
	definitionstest.ExerciseLibraryStore(t, func(t *testing.T) library.Store { return open(t) })
}

func TestReferencesConform(t *testing.T) {
	open := truncatedStore(t, "reference_lists, session_references, reference_names")
	tooltest.ExerciseReferences(t, func(t *testing.T) tool.References { return open(t) })
}

func composite(name string, shape int) agent.Composite {
	return agent.Composite{
		Tenant: tenant, Name: name, Description: "Does it.", Parameters: json.RawMessage(`{"type":"object"}`), Pipeline: json.RawMessage(`[]`),
		Shape: fmt.Sprintf("sha256:%d", shape), Version: 1, Enabled: true,
	}
}

func TestChangeComposite(t *testing.T) {
	b := newBench(t, postgres.Config{})
	first, err := b.SaveComposite(t.Context(), composite("one", 1))
	require.NoError(t, err)
	_, err = b.SaveComposite(t.Context(), composite("two", 2))
	require.NoError(t, err)
	change := func(which string, c agent.CompositeChange) (agent.Composite, error) {
		return b.ChangeComposite(t.Context(), tenant, which, c)
	}
	same, err := change("one", agent.CompositeChange{})
	require.NoError(t, err)
	require.Equal(t, first, same)
	off, err := change(first.ID, agent.CompositeChange{Enabled: new(false)})
	require.NoError(t, err)
	require.False(t, off.Enabled)
	require.Equal(t, first.Description, off.Description)
	own, err := change("one", agent.CompositeChange{Name: new("one"), Enabled: new(true)})
	require.NoError(t, err, "a composite may keep its name")
	require.True(t, own.Enabled)
	_, err = change(first.ID, agent.CompositeChange{Name: new("one")})
	require.NoError(t, err)
	_, err = change("one", agent.CompositeChange{Name: new("two"), Enabled: new(false)})
	requireFault(t, agent.CodeConflict, "name", err)
	for _, builtin := range []string{"execute_pipeline", "search_tools", "search_pubmed"} {
		_, err = change("one", agent.CompositeChange{Name: &builtin})
		requireFault(t, agent.CodeConflict, "name", err)
		require.ErrorContains(t, err, "is the name of a built-in tool")
	}
	for _, bad := range []string{"__proto__", "__x", "", "A", "a-b", "a b", "ü", "a\n", strings.Repeat("x", 65)} {
		_, err = change("one", agent.CompositeChange{Name: &bad})
		requireFault(t, agent.CodeInvalid, "name", err)
	}
	told, err := change("one", agent.CompositeChange{Description: new("Does\r\nit\u2028well.\u200b\u202e \x1b[1m\ufe0f\u0085Größe 漢字\n")})
	require.NoError(t, err)
	require.Equal(t, "Does it well. [1m Größe 漢字", told.Description)
	_, err = change("one", agent.CompositeChange{Description: new(strings.Repeat("x", 1024))})
	require.NoError(t, err)
	_, err = change("one", agent.CompositeChange{Description: new(strings.Repeat("x", 1025))})
	requireFault(t, agent.CodeInvalid, "description", err)
	for who, which := range map[string]string{"evil": "one", tenant: "three"} {
		_, err = b.ChangeComposite(t.Context(), who, which, agent.CompositeChange{Enabled: new(false)})
		requireFault(t, agent.CodeNotFound, "composite", err)
	}
	all, err := b.Composites(t.Context(), "*")
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.True(t, all[0].Enabled, "failed changes have no effect")
}

// A new composite whose name is that of a built-in tool gets a number as suffix.
func TestPromotedBesideBuiltin(t *testing.T) {
	b := newBench(t, postgres.Config{})
	made, err := b.SaveComposite(t.Context(), composite("search_tools", 1))
	require.NoError(t, err)
	require.Equal(t, "search_tools_2", made.Name)
}

func TestSaveCompositeRefuses(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for field, change := range map[string]func(c *agent.Composite){
		"tenant": func(c *agent.Composite) { c.Tenant = "" }, "shape": func(c *agent.Composite) { c.Shape = "" },
		"name": func(c *agent.Composite) { c.Name = "A" }, "parameters": func(c *agent.Composite) { c.Parameters = nil },
		"pipeline": func(c *agent.Composite) { c.Pipeline = json.RawMessage(`[`) }, "description": func(c *agent.Composite) { c.Description = "\x00" },
	} {
		c := composite("one", 1)
		change(&c)
		_, err := b.SaveComposite(t.Context(), c)
		requireFault(t, agent.CodeInvalid, field, err)
	}
	b.exec(`INSERT INTO composites (tenant, id, name, description, shape, version, enabled, created_at, updated_at)
		SELECT 'acme', i, 'n' || i, '', i, 1, true, now(), now() FROM generate_series(1, 1000) i`)
	_, err := b.SaveComposite(t.Context(), composite("one", 1))
	requireCode(t, agent.CodeOverflow, err)
}

func TestPipelineUsesAreBounded(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.exec(`
		INSERT INTO pipeline_uses SELECT 'acme', 'old' || i, now() - i * interval '1 s' FROM generate_series(1, 2010) i;
		INSERT INTO pipeline_shapes SELECT 'acme', 'old' || i, 5, now() - i * interval '1 s' FROM generate_series(1, 10010) i;
		INSERT INTO pipeline_shapes SELECT 'other', 'old' || i, 5, now() FROM generate_series(1, 5) i;
		INSERT INTO pipeline_samples SELECT 'acme', 'old' || i, '', '[]', now() FROM generate_series(1, 5000) i; ANALYZE`)
	kept := composite("kept", 1)
	kept.Shape = "old10010" // the oldest
	_, err := b.SaveComposite(t.Context(), kept)
	require.NoError(t, err)
	for i := range 20 {
		uses, err := b.UsePipeline(t.Context(), agent.PipelineUse{
			Tenant: tenant, Key: fmt.Sprint("k", i), Shape: fmt.Sprint("s", i), Steps: json.RawMessage(fmt.Sprint("[", i, "]")),
		})
		require.NoError(t, err)
		require.EqualValues(t, 1, uses.Count)
	}
	require.Equal(t, 2000, b.count("pipeline_uses"))
	require.Equal(t, 10_001, b.count("pipeline_shapes WHERE tenant = 'acme'"), "including the shape of the composite")
	require.Equal(t, 1, b.count("pipeline_shapes WHERE shape = 'old10010'"))
	require.Equal(t, 5, b.count("pipeline_shapes WHERE tenant = 'other'"))
	require.Equal(t, 20, b.count("pipeline_samples WHERE shape LIKE 's%'"))
	for sql, index := range map[string]string{postgres.ReadUses: "pipeline_shapes_pkey", postgres.EvictUses: "pipeline_uses_age"} {
		var plan string
		if sql == postgres.ReadUses {
			plan = b.explain(sql, tenant, "s1")
		} else {
			plan = b.explain(sql, tenant, 2000)
		}
		require.NotContains(t, plan, "Seq Scan", plan)
		require.Contains(t, plan, index, plan)
	}
	for field, use := range map[string]agent.PipelineUse{
		"tenant": {Key: "k", Shape: "s", Steps: json.RawMessage(`[]`)}, "key": {Tenant: tenant, Shape: "s", Steps: json.RawMessage(`[]`)},
		"shape": {Tenant: tenant, Key: "k", Steps: json.RawMessage(`[]`)},
	} {
		_, err = b.UsePipeline(t.Context(), use)
		requireFault(t, agent.CodeInvalid, field, err)
	}
	_, err = b.UsePipeline(t.Context(), agent.PipelineUse{Tenant: tenant, Key: "x", Shape: "x", Steps: json.RawMessage(`[`)})
	requireCode(t, agent.CodeInvalid, err)
	_, err = b.UsePipeline(t.Context(), agent.PipelineUse{Tenant: tenant, Key: "x", Shape: "x", Steps: json.RawMessage(`"` + strings.Repeat("x", 256<<10) + `"`)})
	requireFault(t, agent.CodeOverflow, "steps", err)
}
