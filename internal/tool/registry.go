// Package tool makes toolkits with their dependencies and finds their tools by name. Each toolkit has a folder below. Package tooltest has the
// suite that all of them pass.
package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// namePattern matches the function names that providers accept.
var namePattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Registry finds toolkits and their tools by exact name. It is immutable.
type Registry struct {
	kits   []agent.Toolkit
	byName map[string]*entry
}

// entry is a toolkit with its static tools, which were listed when the registry was made.
type entry struct {
	kit   agent.Toolkit
	tools map[string]agent.Tool
}

// NewRegistry returns a registry of toolkits. Two toolkits of the same name, or two tools of the same name in one toolkit, are
// [agent.CodeConflict]. Different toolkits may have tools of the same name; an agent can be granted one of them. A name that providers do not
// accept is [agent.CodeInvalid].
func NewRegistry(toolkits ...agent.Toolkit) (*Registry, error) {
	r := &Registry{kits: slices.Clone(toolkits), byName: make(map[string]*entry, len(toolkits))}
	for _, kit := range toolkits {
		name := kit.Name()
		if !namePattern.MatchString(name) {
			return nil, agent.Invalid("toolkits", "toolkit %q: want a name of 1 to 64 of a-z A-Z 0-9 _ -", name)
		}
		if _, twice := r.byName[name]; twice {
			return nil, agent.Errorf(agent.CodeConflict, "register tools", "toolkit %q is given twice", name)
		}
		e := &entry{kit: kit, tools: map[string]agent.Tool{}}
		for _, t := range kit.Tools() {
			if t == nil {
				return nil, agent.Invalid("toolkits", "toolkit %q has a tool that is nil", name)
			}
			spec := t.Spec()
			if !namePattern.MatchString(spec.Name) {
				return nil, agent.Invalid("toolkits", "tool %q of toolkit %q: want a name of 1 to 64 of a-z A-Z 0-9 _ -", spec.Name, name)
			}
			if _, twice := e.tools[spec.Name]; twice {
				return nil, agent.Errorf(agent.CodeConflict, "register tools", "tool %q is in toolkit %q twice", spec.Name, name)
			}
			e.tools[spec.Name] = t
		}
		r.byName[name] = e
	}
	return r, nil
}

// Tool returns a static tool of a toolkit by its exact name. The error is [agent.CodeNotFound].
func (r *Registry) Tool(toolkit, name string) (agent.Tool, error) {
	op := fmt.Sprintf("tool %q", name)
	e, ok := r.byName[toolkit]
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, op, "there is no toolkit %q", toolkit)
	}
	t, ok := e.tools[name]
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, op, "not granted in toolkit %q", toolkit)
	}
	return t, nil
}

// Granted returns the tool that a plan or a turn grants: a static tool of its toolkit, or one that a dynamic toolkit finds. Its errors are those
// of Tool and of [agent.DynamicToolkit].
func (r *Registry) Granted(ctx context.Context, tenant string, t *agent.PlanTool) (agent.Tool, error) {
	found, err := r.Tool(t.Toolkit, t.Spec.Name)
	if err == nil {
		return found, nil
	}
	kit, ok := r.dynamic(t.Toolkit)
	if !ok {
		return nil, err
	}
	scope := agent.ToolScope{Tenant: tenant, Binding: t.Binding, Parameters: t.Parameters, Auth: t.Auth}
	return kit.Find(ctx, scope, t.Spec.Name, t.Handle)
}

// List returns the tools that a dynamic toolkit has for a source, besides its static tools. It leaves out tools whose name, handle or schema is
// not accepted.
func (r *Registry) List(ctx context.Context, tenant string, s *agent.PlanSource) ([]agent.ListedTool, error) {
	kit, ok := r.dynamic(s.Toolkit)
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, "list tools", "there is no toolkit %q whose tools change", s.Toolkit)
	}
	listed, err := kit.List(ctx, agent.ToolScope{Tenant: tenant, Binding: s.Binding, Parameters: s.Parameters, Auth: s.Auth})
	if err != nil {
		return nil, fmt.Errorf("list tools of %q: %w", s.Binding, err)
	}
	return slices.DeleteFunc(listed, func(l agent.ListedTool) bool {
		_, static := r.byName[s.Toolkit].tools[l.Spec.Name]
		return static || !namePattern.MatchString(l.Spec.Name) || len(l.Handle) > maxHandle || !json.Valid(l.Spec.Parameters)
	}), nil
}

// maxHandle is the maximum length of a tool's handle, in bytes.
const maxHandle = 1 << 10

// Dynamic reports whether a toolkit is an [agent.DynamicToolkit].
func (r *Registry) Dynamic(toolkit string) bool {
	_, ok := r.dynamic(toolkit)
	return ok
}

func (r *Registry) dynamic(toolkit string) (agent.DynamicToolkit, bool) {
	e, ok := r.byName[toolkit]
	if !ok {
		return nil, false
	}
	kit, ok := e.kit.(agent.DynamicToolkit)
	return kit, ok
}

// Toolkit returns a toolkit by its exact name.
func (r *Registry) Toolkit(name string) (agent.Toolkit, bool) {
	e, ok := r.byName[name]
	if !ok {
		return nil, false
	}
	return e.kit, true
}

// Single reports whether a toolkit's only tool has the name of the toolkit, as [Single] makes it. In the catalog, it is a node of type tool;
// other toolkits are nodes of type toolkit.
func (r *Registry) Single(toolkit string) bool {
	e, ok := r.byName[toolkit]
	if !ok {
		return false
	}
	_, ok = e.tools[toolkit]
	return ok && len(e.tools) == 1
}

// Toolkits returns the toolkits in the order they were given.
func (r *Registry) Toolkits() []agent.Toolkit { return slices.Clone(r.kits) }

// NewToolkit returns a toolkit with a name and static tools.
func NewToolkit(name string, tools ...agent.Tool) agent.Toolkit { return toolkit{name, tools} }

// Single returns a toolkit that has only the tool, and the tool's name.
func Single(t agent.Tool) agent.Toolkit { return NewToolkit(t.Spec().Name, t) }

type toolkit struct {
	name  string
	tools []agent.Tool
}

func (k toolkit) Name() string        { return k.name }
func (k toolkit) Tools() []agent.Tool { return slices.Clone(k.tools) }
