package graph

import (
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Wait returns the duration, 0 if it is invalid.
func (t *Timer) Wait() time.Duration {
	d, err := time.ParseDuration(t.Duration)
	if err != nil {
		return 0
	}
	return d
}

// Read returns the decoded config of a node. Its error is [agent.CodeInvalid] with a Field relative to the node.
func Read(n *agent.WorkflowNode) (Settings, error) {
	var expressions int
	s, faults := readConfig("", n, &expressions)
	if len(faults) == 0 {
		return s, nil
	}
	return s, agent.Invalid(faults[0].Path, "%s", faults[0].Message)
}
