package turns

import (
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// maxSummaryBytes bounds the summary of a turn in Temporal, whose limit is 400 bytes, including what encryption adds.
const maxSummaryBytes = 100

// messageSummary returns the beginning of a request's first text, on one line, for Temporal's list of workflows. It returns "" if there is no text, or if
// the plan has the middleware pii, which removes personal data from messages.
func (ts *Turns) messageSummary(req *agent.TurnRequest, plan *agent.Plan) string {
	hasPII := slices.ContainsFunc(plan.Middleware, func(m agent.PlanMiddleware) bool { return m.Name == "pii" })
	if !ts.MessageSummaries || hasPII {
		return ""
	}
	for _, m := range req.Input() {
		for i := range m.Blocks {
			if b := &m.Blocks[i]; m.Role == agent.RoleUser && b.Type == agent.BlockText {
				return clip.Bytes(strings.Join(strings.Fields(clip.Prefix(b.Text, 10*maxSummaryBytes)), " "), maxSummaryBytes)
			}
		}
	}
	return ""
}
