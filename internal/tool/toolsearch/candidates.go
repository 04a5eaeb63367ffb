package toolsearch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The bounds of a search.
const (
	maxTools     = 5_000
	maxWorkflows = 500
	maxTitle     = 256     // bytes
	maxBody      = 1 << 10 // bytes
	batchSize    = 1_000   // texts that are ranked at once
)

// patchWorkflow is the name of the tool for changing workflows.
const patchWorkflow = "patch_workflow"

// candidates holds the tools and workflows that are searched, and the texts for the ranking: first of the tools, then of the workflows.
type candidates struct {
	tools           []agent.PlanTool
	workflows       []agent.StoredWorkflow
	texts           []tool.RankedText
	workflowsFailed bool // the workflows could not be listed
}

func (t *search) candidates(ctx context.Context, inv agent.Invocation) (*candidates, error) {
	c := &candidates{}
	if inv.Toolset != nil {
		granted, err := inv.Toolset(ctx)
		if err != nil {
			return nil, fmt.Errorf("list the turn's tools: %w", err)
		}
		c.tools = granted[:min(len(granted), maxTools)]
	}
	for i := range c.tools {
		c.texts = append(c.texts, toolText(&c.tools[i].Spec))
	}
	if t.cfg.Workflows == nil || !slices.ContainsFunc(c.tools, func(p agent.PlanTool) bool { return p.Spec.Name == patchWorkflow }) {
		return c, nil
	}
	list, err := t.workflows(ctx, inv.Tenant)
	switch {
	case ctx.Err() != nil:
		return nil, agent.Interrupted(ctx, "call "+ToolName)
	case err != nil:
		t.cfg.Logger.Warn("list workflows", zap.Error(err))
		c.workflowsFailed = true
	}
	c.workflows = list
	for i := range list {
		c.texts = append(c.texts, workflowText(&list[i]))
	}
	return c, nil
}

// workflows returns the workflows of a tenant. With an error, it returns those that were listed before it.
func (t *search) workflows(ctx context.Context, tenant string) ([]agent.StoredWorkflow, error) {
	var all []agent.StoredWorkflow
	q := agent.WorkflowQuery{Tenant: tenant, Page: agent.Page{Size: maxWorkflows}}
	for len(all) < maxWorkflows {
		page, err := t.cfg.Workflows.ListWorkflows(ctx, q)
		if err != nil {
			return all, err
		}
		for i := range page.Workflows {
			if !page.Workflows[i].Deleted {
				all = append(all, page.Workflows[i])
			}
		}
		if page.Next == "" || page.Next == q.Token {
			break
		}
		q.Token = page.Next
	}
	return all[:min(len(all), maxWorkflows)], nil
}

// toolText returns the text by which a tool is found: its name, also split into words, its description and its parameters.
func toolText(s *agent.ToolSpec) tool.RankedText {
	body := []string{clip.Prefix(s.Description, maxBody)}
	for _, p := range parametersOf(s.Parameters) {
		body = append(body, p.name, clip.Prefix(p.description, maxBody))
	}
	return tool.RankedText{Title: titleOf(s.Name), Body: clip.Prefix(strings.Join(body, "\n"), maxBody)}
}

// workflowText returns the text by which a workflow is found: its tag, its description and its nodes.
func workflowText(w *agent.StoredWorkflow) tool.RankedText {
	d := definitionOf(w)
	body := []string{clip.Prefix(d.Description, maxBody)}
	for i := range d.Nodes {
		body = append(body, wordsOf(d.Nodes[i].ID), clip.Prefix(d.Nodes[i].Name, maxBody), d.Nodes[i].Type)
	}
	return tool.RankedText{Title: titleOf(w.Tag), Body: clip.Prefix(strings.Join(body, "\n"), maxBody)}
}

// definitionOf returns the definition of a workflow, or an empty one if it cannot be decoded.
func definitionOf(w *agent.StoredWorkflow) agent.WorkflowDefinition {
	var d agent.WorkflowDefinition
	if json.Unmarshal(w.Definition, &d) != nil {
		return agent.WorkflowDefinition{}
	}
	return d
}

// titleOf returns a name, followed by its words if it has several.
func titleOf(name string) string {
	if words := wordsOf(name); words != name {
		name += " " + words
	}
	return clip.Prefix(name, maxTitle)
}

// wordsOf returns a name split into words: "search pubmed" for search_pubmed.
func wordsOf(name string) string {
	return strings.Join(strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("_-./", r) }), " ")
}

// parameter is an argument of a tool.
type parameter struct{ name, description string }

// parametersOf returns the properties of a schema by name.
func parametersOf(schema json.RawMessage) []parameter {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	list := make([]parameter, 0, len(s.Properties))
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		var p struct {
			Description string `json:"description"`
		}
		_ = json.Unmarshal(s.Properties[name], &p) // the schema true has no description
		list = append(list, parameter{name, p.Description})
	}
	return list
}

// rank returns the texts that match the query, the best first.
func (t *search) rank(ctx context.Context, query string, texts []tool.RankedText) ([]tool.Ranked, error) {
	var all []tool.Ranked
	from := 0
	for batch := range slices.Chunk(texts, batchSize) {
		found, err := t.cfg.Ranking.Rank(ctx, query, batch, len(batch))
		if err != nil {
			return nil, fmt.Errorf("rank tools: %w", err)
		}
		for _, f := range found {
			if f.Index >= 0 && f.Index < len(batch) {
				all = append(all, tool.Ranked{Index: from + f.Index, Score: f.Score})
			}
		}
		from += len(batch)
	}
	slices.SortStableFunc(all, func(a, b tool.Ranked) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Index, b.Index))
	})
	return all, nil
}
