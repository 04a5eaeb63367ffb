// Package tool finds tools by name among the toolkits that a runtime was built with (DESIGN §7). Each toolkit has a folder below;
// the suite that all of them pass is in tooltest.
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
	kits  []agent.Toolkit
	tools map[string]map[string]agent.Tool // by toolkit, by tool
}

// NewRegistry indexes toolkits. A model sees tools by name alone, so a name may exist once: a second toolkit or tool of the same name
// is refused with [agent.CodeConflict], naming both sources; a name no provider accepts with [agent.CodeInvalid].
func NewRegistry(toolkits ...agent.Toolkit) (*Registry, error) {
	r := &Registry{kits: slices.Clone(toolkits), tools: map[string]map[string]agent.Tool{}}
	source := map[string]string{}
	for _, kit := range toolkits {
		name := kit.Name()
		if !namePattern.MatchString(name) {
			return nil, agent.Invalid("toolkits", "toolkit %q: want a name of 1 to 64 of a-z A-Z 0-9 _ -", name)
		}
		if _, twice := r.tools[name]; twice {
			return nil, agent.Errorf(agent.CodeConflict, "register tools", "toolkit %q is given twice", name)
		}
		r.tools[name] = map[string]agent.Tool{}
		for _, t := range kit.Tools() {
			spec := t.Spec()
			if !namePattern.MatchString(spec.Name) {
				return nil, agent.Invalid("toolkits", "tool %q of toolkit %q: want a name of 1 to 64 of a-z A-Z 0-9 _ -", spec.Name, name)
			}
			if other, taken := source[spec.Name]; taken {
				return nil, agent.Errorf(agent.CodeConflict, "register tools", "tool %q is in toolkit %q and in toolkit %q", spec.Name, other, name)
			}
			source[spec.Name] = name
			r.tools[name][spec.Name] = t
		}
	}
	return r, nil
}

// Tool returns a tool of a toolkit. The error is [agent.CodeNotFound]; for a tool that the toolkit does not have it says "not granted
// in toolkit" (seed 003).
func (r *Registry) Tool(toolkit, name string) (agent.Tool, error) {
	tools, ok := r.tools[toolkit]
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, fmt.Sprintf("find tool %q", name), "there is no toolkit %q", toolkit)
	}
	t, ok := tools[name]
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, fmt.Sprintf("find tool %q", name), "not granted in toolkit %q", toolkit)
	}
	return t, nil
}

// Toolkits returns the toolkits in the order they were given.
func (r *Registry) Toolkits() []agent.Toolkit { return slices.Clone(r.kits) }
