package routing

import (
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/turnstone-run/turnstone/agent"
)

// bounds limit what the expressions of one decision cost. A thousand ordinary ones cost about 10,000 steps and 5 ms.
//
// Time bounds what steps do not count, such as measuring large values again and again. It is long, because a decision must not depend on
// how busy the machine is.
type bounds struct {
	steps          uint64        // all expressions together
	time           time.Duration // all expressions together; checked between them
	expressionTime time.Duration // one expression
}

func defaultBounds() bounds {
	return bounds{steps: 1_000_000, time: 250 * time.Millisecond, expressionTime: 100 * time.Millisecond}
}

// facts is the request of one decision as conditions read it. It is the activation of CEL programs: variables are made when they are
// first read, and kept for the next expressions.
type facts struct {
	request *agent.RouteContext
	bounds  bounds
	words   [words]string

	flags, metadata any // CEL maps
	steps           uint64
	started         time.Time // of the first expression
}

func newFacts(c *agent.RouteContext, b bounds) *facts {
	words := [words]string{role: c.UserRole, page: c.UIPage, channel: c.Channel, tenant: c.TenantName()}
	return &facts{request: c, bounds: b, words: words}
}

// ResolveName returns a variable.
func (f *facts) ResolveName(name string) (any, bool) {
	switch name {
	case "role":
		return f.words[role], true
	case "page":
		return f.words[page], true
	case "channel":
		return f.words[channel], true
	case "tenant":
		return f.words[tenant], true
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

// Parent is nil: there are no other variables.
func (f *facts) Parent() cel.Activation { return nil }

// limitReached says why no further expression is evaluated, empty as long as steps and time are left.
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
