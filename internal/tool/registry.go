// Package tool makes toolkits out of what they need and finds their tools by name (DESIGN §7). Each toolkit has a folder below; the
// suite that all of them pass is in tooltest, and the gRPC clients that they may share in conns.
package tool

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// namePattern is what providers accept as the name of a function.
var namePattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Registry holds toolkits and their tools by exact name. It does not change once made.
type Registry struct {
	kits   []agent.Toolkit
	byName map[string]*entry
}

// entry is a toolkit with its tools, indexed once: a toolkit is not asked again.
type entry struct {
	kit   agent.Toolkit
	tools map[string]agent.Tool
}

// NewRegistry indexes toolkits. A toolkit's name exists once, and a tool's name once within its toolkit: else the error is
// [agent.CodeConflict]. Two toolkits may have tools of the same name; an agent can be granted one of them. A name that no provider
// accepts is [agent.CodeInvalid].
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

// Tool returns a tool of a toolkit, by its exact name. The error is [agent.CodeNotFound]; for a tool that the toolkit does not have it
// is the seed's: tool "x": not granted in toolkit "y".
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

// Toolkit returns a toolkit by its exact name.
func (r *Registry) Toolkit(name string) (agent.Toolkit, bool) {
	e, ok := r.byName[name]
	if !ok {
		return nil, false
	}
	return e.kit, true
}

// Single reports whether a toolkit is a single tool: its only tool has the toolkit's name, as [Single] makes it. Such a one is a node
// of type tool, any other a node of type toolkit.
func (r *Registry) Single(toolkit string) bool {
	e, ok := r.byName[toolkit]
	if !ok {
		return false
	}
	_, same := e.tools[toolkit]
	return same && len(e.tools) == 1
}

// Toolkits returns the toolkits in the order they were given.
func (r *Registry) Toolkits() []agent.Toolkit { return slices.Clone(r.kits) }

// Single makes a tool that belongs to no toolkit into one of its own, under the tool's name.
func Single(t agent.Tool) agent.Toolkit { return single{t} }

type single struct{ tool agent.Tool }

func (s single) Name() string        { return s.tool.Spec().Name }
func (s single) Tools() []agent.Tool { return []agent.Tool{s.tool} }
