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

// The bounds of an answer, in bytes. A longer answer would be moved to the blob store and then would not reveal tools.
const (
	maxAnswer      = 24 << 10
	maxDescription = 300
	maxSchema      = 2 << 10
	maxName        = 64
)

const maxNames = 40 // parameter names of a tool

// answer is the output of the tool.
type answer struct {
	Tools      []foundTool     `json:"tools"` // the names reveal deferred tools
	Workflows  []foundWorkflow `json:"workflows"`
	TotalFound int             `json:"total_found"` // including those that are left out
	Hint       string          `json:"hint,omitempty"`

	isWorkflow []bool // for each entry of both lists, the best first
}

type foundTool struct {
	Name           string          `json:"name"`
	Type           string          `json:"type"` // tool, composite, mcp
	Description    string          `json:"description"`
	Toolkit        string          `json:"toolkit"`
	Parameters     json.RawMessage `json:"parameters,omitempty"`
	ParameterNames []string        `json:"parameter_names,omitempty"` // if there is no room for the schema
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

const (
	hintNothing     = "Nothing was found. Try other words for what the tool is to do."
	hintRevealed    = "Tools that were found can be called by their names from now on."
	hintNoWorkflows = "Workflows could not be searched at present."
)

// answer returns the first results with their descriptions, in at most maxBytes.
func (c *candidates) answer(found []tool.Ranked, limit, maxBytes int) (json.RawMessage, error) {
	a := &answer{Tools: []foundTool{}, Workflows: []foundWorkflow{}, TotalFound: len(found)}
	deferred := false
	for _, f := range found[:min(len(found), limit)] {
		score := math.Round(f.Score*1e4) / 1e4
		if f.Index >= len(c.tools) {
			a.isWorkflow = append(a.isWorkflow, true)
			a.Workflows = append(a.Workflows, describeWorkflow(&c.workflows[f.Index-len(c.tools)], score))
			continue
		}
		t := &c.tools[f.Index]
		deferred = deferred || t.Deferred
		a.isWorkflow = append(a.isWorkflow, false)
		a.Tools = append(a.Tools, describeTool(t, score))
	}
	var hints []string
	if len(found) == 0 {
		hints = append(hints, hintNothing)
	}
	if deferred {
		hints = append(hints, hintRevealed)
	}
	if c.workflowsFailed {
		hints = append(hints, hintNoWorkflows)
	}
	a.Hint = strings.Join(hints, " ")
	return a.encode(maxBytes)
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
		f.ParameterNames = parameterNames(t.Spec.Parameters)
	}
	return f
}

// parameterNames returns the names of a schema's properties.
func parameterNames(schema json.RawMessage) []string {
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

// encode returns the answer as JSON in at most maxBytes. If necessary, it shortens the answer.
func (a *answer) encode(maxBytes int) (json.RawMessage, error) {
	for {
		raw, err := tool.EncodeJSON(a)
		if err != nil || len(raw) <= maxBytes || !a.shorten() {
			return raw, err
		}
	}
}

// shorten removes the last schema, else the last parameter names, else the last entry. It returns false if the answer is empty.
func (a *answer) shorten() bool {
	for i := len(a.Tools) - 1; i >= 0; i-- {
		if t := &a.Tools[i]; t.Parameters != nil {
			t.Parameters, t.ParameterNames = nil, parameterNames(t.Parameters)
			return true
		}
	}
	for i := len(a.Tools) - 1; i >= 0; i-- {
		if a.Tools[i].ParameterNames != nil {
			a.Tools[i].ParameterNames = nil
			return true
		}
	}
	last := len(a.isWorkflow) - 1
	switch {
	case last < 0:
		return false
	case a.isWorkflow[last]:
		a.Workflows = a.Workflows[:len(a.Workflows)-1]
	default:
		a.Tools = a.Tools[:len(a.Tools)-1]
	}
	a.isWorkflow = a.isWorkflow[:last]
	return true
}
