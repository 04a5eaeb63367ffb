package routing

import (
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/turnstone-run/turnstone/agent"
)

// bounds limit the cost of the expressions of one decision. A thousand ordinary expressions take about 10,000 steps and 5 ms.
//
// The time limits work that steps do not count, such as repeatedly measuring large values. It is long, so that decisions do not depend on the load of
// the machine.
type bounds struct {
	steps          uint64        // of all expressions
	time           time.Duration // for all expressions; checked between expressions
	expressionTime time.Duration // for one expression
}

func defaultBounds() bounds {
	return bounds{steps: 1_000_000, time: 250 * time.Millisecond, expressionTime: 100 * time.Millisecond}
}

// facts is the request of a decision, and the state of its evaluation. It is the activation of CEL programs. It creates variables on first use.
type facts struct {
	request    *agent.RouteContext
	bounds     bounds
	attributes [attributeCount]string

	flags, metadata any       // CEL maps; nil until first used
	steps           uint64    // used so far
	started         time.Time // when the first expression began
}

func newFacts(c *agent.RouteContext, b bounds) *facts {
	attributes := [attributeCount]string{role: c.UserRole, page: c.UIPage, channel: c.Channel, tenant: c.TenantName()}
	return &facts{request: c, bounds: b, attributes: attributes}
}

// ResolveName returns the value of a variable.
func (f *facts) ResolveName(name string) (any, bool) {
	switch name {
	case "role":
		return f.attributes[role], true
	case "page":
		return f.attributes[page], true
	case "channel":
		return f.attributes[channel], true
	case "tenant":
		return f.attributes[tenant], true
	case "user":
		return f.request.UserID, true
	case "session":
		return string(f.request.SessionID), true
	case "agent":
		return f.request.Agent, true
	case "flags":
		if f.flags == nil {
			f.flags = types.NewStringInterfaceMap(types.DefaultTypeAdapter, f.request.Flags)
		}
		return f.flags, true
	case "metadata":
		if f.metadata == nil {
			f.metadata = types.NewStringInterfaceMap(types.DefaultTypeAdapter, f.request.Metadata)
		}
		return f.metadata, true
	default:
		return nil, false
	}
}

// Parent returns nil, because there are no other variables.
func (f *facts) Parent() cel.Activation { return nil }

// limitReached returns why no further expression may be evaluated, empty if one may.
func (f *facts) limitReached() string {
	switch {
	case f.started.IsZero():
		f.started = time.Now()
	case f.steps >= f.bounds.steps:
		return "the expressions before it took all the steps that a decision may take"
	case time.Since(f.started) > f.bounds.time:
		return "the expressions before it took all the time that a decision may take"
	}
	return ""
}
