package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/core"
)

// attributeScheduledBy is the search attribute that Temporal gives to runs that a schedule started.
var attributeScheduledBy = temporal.NewSearchAttributeKeyKeyword("TemporalScheduledById") //nolint:gochecknoglobals // a constant in all but syntax

// RunView answers the query "state". The outputs of nodes are in the store: a workflow holds no content.
type RunView struct {
	RunID     string          `json:"run_id"`
	Tag       string          `json:"workflow_tag"`
	Owner     string          `json:"workflow_owner"`
	Version   int64           `json:"version"`
	Status    agent.RunStatus `json:"status"`
	Visits    int             `json:"visits"`
	Nodes     []NodeView      `json:"nodes"`
	Error     *agent.Failure  `json:"error"`
	Cancelled bool            `json:"cancelled"`
}

// NodeView is the state of a node.
type NodeView struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Status string `json:"status"` // idle, asked, running, or how the last visit ended
	Visits int    `json:"visits"`
	Until  string `json:"until,omitempty"` // of a timer that runs
}

func (r *definedRun) view() RunView {
	v := RunView{
		RunID: r.ref.RunID, Tag: r.ref.Tag, Owner: r.ref.Owner, Version: r.ref.Version, Status: r.status, Nodes: []NodeView{},
		Error: r.failure, Cancelled: r.cancelled,
	}
	if r.core == nil {
		return v
	}
	state := r.core.State()
	v.Visits = state.Visits
	for i, m := range state.Nodes {
		n := NodeView{ID: r.skeleton.Nodes[i].ID, Type: r.skeleton.Nodes[i].Type, Status: "idle", Visits: m.Visits}
		switch {
		case m.Phase == core.Running && m.Visits > 0, m.Phase == core.Asked:
			n.Status = string(m.Phase)
		case m.Last != "":
			n.Status = string(m.Last)
		}
		for _, t := range r.timers {
			if t.Node == i {
				n.Until = t.Until.UTC().Format("2006-01-02T15:04:05Z07:00")
			}
		}
		v.Nodes = append(v.Nodes, n)
	}
	return v
}

// show writes the state of the nodes to the Web UI, in Markdown. It costs no history.
func (r *definedRun) show(ctx workflow.Context) {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** · version %d · %s\n\n", r.ref.Tag, r.ref.Version, r.status)
	for _, n := range r.view().Nodes {
		fmt.Fprintf(&b, "- `%s` (%s): %s", n.ID, n.Type, n.Status)
		if n.Visits > 1 {
			fmt.Fprintf(&b, ", visit %d", n.Visits)
		}
		if n.Until != "" {
			fmt.Fprintf(&b, ", until %s", n.Until)
		}
		b.WriteByte('\n')
	}
	workflow.SetCurrentDetails(ctx, b.String())
}

// summary returns the text that the Web UI shows beside a visit.
func summary(n *core.Node) string {
	if n.Action == "" {
		return n.ID
	}
	return n.ID + " · " + n.Action
}
