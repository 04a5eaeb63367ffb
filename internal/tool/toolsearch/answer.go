package toolsearch

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The bounds of an answer, in bytes.
const (
	maxAnswer      = 24 << 10
	maxDescription = 300
	maxSchema      = 2 << 10
	maxName        = 64
	maxNames       = 40 // of parameters, how many
)

// answer is what the model gets.
type answer struct {
	Tools      []foundTool     `json:"tools"` // its names reveal deferred tools
	Workflows  []foundWorkflow `json:"workflows"`
	TotalFound int             `json:"total_found"` // also those that are left out
	Hint       string          `json:"hint,omitempty"`

	order []bool // of the entries, the best first, whether it is a workflow
}

type foundTool struct {
	Name           string          `json:"name"`
	Type           string          `json:"type"` // tool, composite, mcp
	Description    string          `json:"description"`
	Toolkit        string          `json:"toolkit"`
	Parameters     json.RawMessage `json:"parameters,omitempty"`
	ParameterNames []string        `json:"parameter_names,omitempty"` // where there is no room for the schema
	Score          float64         `json:"score"`
}

type foundWorkflow struct {
	Type        string  `json:"type"` // workflow
	Tag         string  `json:"workflow_tag"`
	Owner       string  `json:"workflow_owner"`
	Description string  `json:"description"`
	Version     int64   `json:"version"`
	Score       float64 `json:"score"`
}

// The hints.
const (
	hintNothing     = "Nothing was found. Try other words for what the tool is to do."
	hintRevealed    = "Tools that were found can be called by their names from now on."
	hintNoWorkflows = "Workflows could not be searched at present."
)

// answer describes the best of what was found, in at most room bytes.
func (c *candidates) answer(found []tool.Ranked, limit, room int) (json.RawMessage, error) {
	a := &answer{Tools: []foundTool{}, Workflows: []foundWorkflow{}, TotalFound: len(found)}
	deferred := false
	for _, f := range found[:min(len(found), limit)] {
		score := math.Round(f.Score*1e4) / 1e4
		if f.Index >= len(c.tools) {
			a.order = append(a.order, true)
			a.Workflows = append(a.Workflows, describeWorkflow(&c.workflows[f.Index-len(c.tools)], score))
			continue
		}
		t := &c.tools[f.Index]
		deferred = deferred || t.Deferred
		a.order = append(a.order, false)
		a.Tools = append(a.Tools, describeTool(t, score))
	}
	a.Hint = hint(len(found) == 0, deferred, c.workflowsFailed)
	return a.fit(room)
}

func hint(isEmpty, isDeferred, workflowsFailed bool) string {
	var hints []string
	if isEmpty {
		hints = append(hints, hintNothing)
	}
	if isDeferred {
		hints = append(hints, hintRevealed)
	}
	if workflowsFailed {
		hints = append(hints, hintNoWorkflows)
	}
	return strings.Join(hints, " ")
}

func describeTool(t *agent.PlanTool, score float64) foundTool {
	f := foundTool{Name: t.Spec.Name, Type: t.Kind, Description: clip.Prefix(t.Spec.Description, maxDescription), Toolkit: t.Toolkit, Score: score}
	if f.Type == "" {
		f.Type = "tool"
	}
	var compact bytes.Buffer
	if json.Compact(&compact, t.Spec.Parameters) == nil && compact.Len() <= maxSchema {
		f.Parameters = compact.Bytes()
	} else {
		f.ParameterNames = namesOf(t.Spec.Parameters)
	}
	return f
}

// namesOf lists the names of a schema's properties.
func namesOf(schema json.RawMessage) []string {
	all := parametersOf(schema)
	names := make([]string, min(len(all), maxNames))
	for i := range names {
		names[i] = clip.Prefix(all[i].name, maxName)
	}
	return names
}

func describeWorkflow(w *agent.StoredWorkflow, score float64) foundWorkflow {
	return foundWorkflow{
		Type: "workflow", Tag: w.Tag, Owner: w.Owner, Description: clip.Prefix(definitionOf(w).Description, maxDescription), Version: w.Version, Score: score,
	}
}

// fit encodes the answer in at most room bytes. The last entries are the worst: they lose their schemas first, then the names of their
// parameters, and then they are left out.
func (a *answer) fit(room int) (json.RawMessage, error) {
	for {
		raw, err := tool.EncodeJSON(a)
		if err != nil || len(raw) <= room || !a.shorten() {
			return raw, err
		}
	}
}

// shorten removes the next thing, or returns false if nothing is left.
func (a *answer) shorten() bool {
	for i := len(a.Tools) - 1; i >= 0; i-- {
		if t := &a.Tools[i]; t.Parameters != nil {
			t.Parameters, t.ParameterNames = nil, namesOf(t.Parameters)
			return true
		}
	}
	for i := len(a.Tools) - 1; i >= 0; i-- {
		if a.Tools[i].ParameterNames != nil {
			a.Tools[i].ParameterNames = nil
			return true
		}
	}
	last := len(a.order) - 1
	switch {
	case last < 0:
		return false
	case a.order[last]:
		a.Workflows = a.Workflows[:len(a.Workflows)-1]
	default:
		a.Tools = a.Tools[:len(a.Tools)-1]
	}
	a.order = a.order[:last]
	return true
}

// maxBytes returns how long an answer may be. A longer one would be moved to the blob store, and then reveals no tools.
func maxBytes(inv agent.Invocation) int {
	if inv.InlineBytes > 0 {
		return min(maxAnswer, inv.InlineBytes)
	}
	return maxAnswer
}
