package inbox_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/workflows"
)

// TestStartAttributes: a turn is started with its search attributes where the namespace knows them.
func TestStartAttributes(t *testing.T) {
	o := newOffice(t)
	for _, o.indexed = range []bool{false, true} {
		r, err := o.Submit(t.Context(), agent.Envelope{Channel: "http", Principal: holder("*"), Request: hello(nil)})
		require.NoError(t, err)
		want := sdktemporal.SearchAttributes{}
		if o.indexed {
			want = workflows.TurnAttributes("acme", "clerk", r.SessionID)
		}
		require.Equal(t, want, o.found[r.TurnID.WorkflowID()])
	}
}

// TestRequestIsRoutedOnce: a request is checked and routed at its door, and not again when its turn is recorded.
func TestRequestIsRoutedOnce(t *testing.T) {
	for _, mode := range []agent.Mode{agent.ModeDurable, agent.ModeDirect} {
		o := newOffice(t)
		r, err := o.Submit(t.Context(), agent.Envelope{
			Channel: "http", Principal: holder("*"), Request: hello(func(r *agent.TurnRequest) { r.Mode = mode }),
		})
		require.NoError(t, err)
		if mode == agent.ModeDirect {
			o.ended(r.TurnID)
		}
		o.mu.Lock()
		require.Equal(t, 1, o.routed, "%s", mode)
		o.mu.Unlock()
	}
}
