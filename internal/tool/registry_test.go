package tool_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// kit returns a toolkit with tools that do nothing.
func kit(name string, tools ...string) agent.Toolkit {
	list := make([]agent.Tool, len(tools))
	for i, n := range tools {
		list[i] = namedTool(n)
	}
	return tool.NewToolkit(name, list...)
}

// namedTool is a tool that does nothing.
type namedTool string

func (n namedTool) Spec() agent.ToolSpec { return agent.ToolSpec{Name: string(n)} }

func (n namedTool) Call(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
	return agent.ToolResult{}, nil
}

func TestRegistryFindsByExactName(t *testing.T) {
	t.Parallel()
	r, err := tool.NewRegistry(kit("a", "one", "two"), kit("b", "three"))
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

// TestRegistryFindsToolsOfTheSameName checks that two toolkits may have tools of the same name.
func TestRegistryFindsToolsOfTheSameName(t *testing.T) {
	t.Parallel()
	r, err := tool.NewRegistry(kit("a", "x", "y"), kit("b", "x"))
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		_, err := r.Tool(name, "x")
		require.NoError(t, err)
	}
	_, err = r.Tool("b", "y")
	require.EqualError(t, err, `tool "y": not granted in toolkit "b"`)
}

func TestRegistryRecognisesSingleTools(t *testing.T) {
	t.Parallel()
	r, err := tool.NewRegistry(tool.Single(namedTool("alone")), kit("one", "other"), kit("two", "two", "more"))
	require.NoError(t, err)
	require.True(t, r.Single("alone"))
	for _, name := range []string{"one", "two", "none", "other"} {
		require.False(t, r.Single(name), name)
	}
	found, err := r.Tool("alone", "alone")
	require.NoError(t, err)
	require.Equal(t, namedTool("alone"), found)
}

func TestRegistryRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		kits []agent.Toolkit
		code agent.Code
		says []string
	}{
		{"a tool twice in a toolkit", []agent.Toolkit{kit("a", "x", "x")}, agent.CodeConflict, []string{`"a"`, `"x"`}},
		{"a toolkit twice", []agent.Toolkit{kit("a"), kit("a")}, agent.CodeConflict, []string{`"a"`}},
		{"a tool's name", []agent.Toolkit{kit("a", "x y")}, agent.CodeInvalid, []string{`"x y"`}},
		{"a toolkit's name", []agent.Toolkit{kit("")}, agent.CodeInvalid, []string{`""`}},
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
