package turns

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestMessageSummary(t *testing.T) {
	image := agent.Message{Role: agent.RoleUser, Blocks: []agent.Block{{Type: agent.BlockImage}}}
	for name, c := range map[string]struct {
		off  bool
		req  agent.TurnRequest
		plan agent.Plan
		want string
	}{
		"one line":              {req: agent.TurnRequest{Message: "fetch\n flights\tnow "}, want: "fetch flights now"},
		"long":                  {req: agent.TurnRequest{Message: strings.Repeat("é", 80)}, want: strings.Repeat("é", 50) + "…"},
		"first text of a user":  {req: agent.TurnRequest{Messages: []agent.Message{image, agent.UserText("and this?")}}, want: "and this?"},
		"no text":               {req: agent.TurnRequest{Messages: []agent.Message{image}}},
		"personal data sought":  {req: agent.TurnRequest{Message: "I am Joe"}, plan: agent.Plan{Middleware: []agent.PlanMiddleware{{Name: "pii"}}}},
		"switched off":          {off: true, req: agent.TurnRequest{Message: "hello"}},
		"other middleware only": {req: agent.TurnRequest{Message: "hello"}, plan: agent.Plan{Middleware: []agent.PlanMiddleware{{Name: "todo"}}}, want: "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			ts := &Turns{Config: Config{MessageSummaries: !c.off}}
			require.Equal(t, c.want, ts.messageSummary(&c.req, &c.plan))
		})
	}
}
