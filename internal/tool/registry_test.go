package tool_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

type kit struct {
	name  string
	tools []string
}

func (k kit) Name() string { return k.name }

func (k kit) Tools() []agent.Tool {
	var out []agent.Tool
	for _, n := range k.tools {
		out = append(out, named(n))
	}
	return out
}

type named string

func (n named) Spec() agent.ToolSpec { return agent.ToolSpec{Name: string(n)} }

func (n named) Call(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
	return agent.ToolResult{}, nil
}

func TestRegistryFindsByExactName(t *testing.T) {
	t.Parallel()
	r, err := tool.NewRegistry(kit{"a", []string{"one", "two"}}, kit{"b", []string{"three"}})
	require.NoError(t, err)

	got, err := r.Tool("b", "three")
	require.NoError(t, err)
	require.Equal(t, "three", got.Spec().Name)
	require.Len(t, r.Toolkits(), 2)
	require.Equal(t, "a", r.Toolkits()[0].Name())

	_, err = r.Tool("a", "three")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	require.EqualError(t, err, `tool "three": not granted in toolkit "a"`)
	_, err = r.Tool("a", "One")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	_, err = r.Tool("c", "one")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	require.EqualError(t, err, `tool "one": there is no toolkit "c"`)

	found, ok := r.Toolkit("b")
	require.True(t, ok)
	require.Equal(t, "b", found.Name())
	_, ok = r.Toolkit("B")
	require.False(t, ok)
}

// Two toolkits may have tools of one name; each is found in its own.
func TestRegistryKeepsToolkitsApart(t *testing.T) {
	t.Parallel()
	first, second := kit{"a", []string{"x", "y"}}, kit{"b", []string{"x"}}
	r, err := tool.NewRegistry(first, second)
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		_, err := r.Tool(name, "x")
		require.NoError(t, err)
	}
	_, err = r.Tool("b", "y")
	require.EqualError(t, err, `tool "y": not granted in toolkit "b"`)
}

func TestRegistryTellsSingleTools(t *testing.T) {
	t.Parallel()
	r, err := tool.NewRegistry(tool.Single(named("alone")), kit{"one", []string{"other"}}, kit{"two", []string{"two", "more"}})
	require.NoError(t, err)
	require.True(t, r.Single("alone"))
	for _, name := range []string{"one", "two", "none", "other"} {
		require.False(t, r.Single(name), name)
	}
	found, err := r.Tool("alone", "alone")
	require.NoError(t, err)
	require.Equal(t, named("alone"), found)
}

func TestRegistryRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		kits []agent.Toolkit
		code agent.Code
		says []string
	}{
		{"a tool twice in one", []agent.Toolkit{kit{"a", []string{"x", "x"}}}, agent.CodeConflict, []string{`"a"`, `"x"`}},
		{"a toolkit twice", []agent.Toolkit{kit{"a", nil}, kit{"a", nil}}, agent.CodeConflict, []string{`"a"`}},
		{"a tool's name", []agent.Toolkit{kit{"a", []string{"x y"}}}, agent.CodeInvalid, []string{`"x y"`}},
		{"a toolkit's name", []agent.Toolkit{kit{"", nil}}, agent.CodeInvalid, []string{`""`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := tool.NewRegistry(tt.kits...)
			require.Equal(t, tt.code, agent.CodeOf(err))
			for _, s := range tt.says {
				require.ErrorContains(t, err, s)
			}
		})
	}
}
