package research

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// searchTool is a tool that searches one source, or several sources at once.
type searchTool struct {
	kit         *toolkit
	name        string
	description string
	schema      json.RawMessage
	parse       func(args json.RawMessage) (*search, error)
}

var (
	_ agent.EffectFree = (*searchTool)(nil)
	_ agent.Summarizer = (*searchTool)(nil)
)

func (t *searchTool) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: t.name, Description: t.description, Parameters: append(json.RawMessage(nil), t.schema...),
		Idempotent: true, InherentlySafe: true,
	}
}

// EffectFree returns false for a search: it adds to the bibliography. A search may also take longer than a local activity may, which would
// then send the requests again.
func (t *searchTool) EffectFree(args json.RawMessage) bool {
	_, err := t.parse(args)
	return err != nil
}

// Summarize returns the maximum number of results. The query stays out of the history.
func (t *searchTool) Summarize(args json.RawMessage) string {
	s, err := t.parse(args)
	if err != nil {
		return "invalid arguments"
	}
	return fmt.Sprintf("%d at most", s.max)
}

// Call searches and adds the results to the bibliography. The package comment says what is a failed result and what an error.
func (t *searchTool) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	if err := interrupted(ctx); err != nil {
		return agent.ToolResult{}, err
	}
	s, err := t.parse(call.Args)
	if err != nil {
		return failedResult(t.name, err)
	}
	found, err := s.run(ctx, &exchange{kit: t.kit, inv: inv})
	if err != nil {
		return errorResult(ctx, t.name, err)
	}
	found.works = mergeDuplicates(found.works)
	numbers, err := t.kit.numberWorks(ctx, inv, found.works)
	if err != nil {
		return agent.ToolResult{}, err
	}
	a := answer{Source: s.source, Query: s.query, Total: found.total, Failed: found.failed, Warnings: found.warnings}
	for i := range found.works {
		a.Results = append(a.Results, newResult(&found.works[i], numbers[i]))
	}
	return a.result(tool.InlineBytes(inv))
}

// errorResult returns the error of a search as a failed result, or as an error if the runtime may retry the call.
func errorResult(ctx context.Context, toolName string, err error) (agent.ToolResult, error) {
	if ctxErr := interrupted(ctx); ctxErr != nil {
		return agent.ToolResult{}, ctxErr
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return agent.ToolResult{}, err
	}
	return failedResult(toolName, err)
}

func failedResult(toolName string, err error) (agent.ToolResult, error) {
	f := agent.FailureOf(err)
	f.Message = clip(f.Message, 2000)
	return tool.FailedResult(toolName, f)
}

// numberWorks adds works to the bibliography of the conversation and returns their numbers in it.
func (t *toolkit) numberWorks(ctx context.Context, inv agent.Invocation, works []work) ([]int, error) {
	if len(works) == 0 {
		return nil, nil
	}
	refs := make([]agent.Reference, len(works))
	for i := range works {
		var err error
		if refs[i], err = works[i].reference(); err != nil {
			return nil, err
		}
		if err := redactReference(inv, &refs[i]); err != nil {
			return nil, err
		}
	}
	kept, err := t.cfg.References.AddReferences(ctx, inv.Tenant, inv.SessionID, refs)
	if err != nil {
		return nil, fmt.Errorf("keep references: %w", err)
	}
	if len(kept) != len(refs) {
		return nil, agent.Errorf(agent.CodeInternal, opSearch, "%d references were kept of %d", len(kept), len(refs))
	}
	numbers := make([]int, len(kept))
	for i := range kept {
		numbers[i] = kept[i].Number
	}
	return numbers, nil
}

// redactReference redacts a reference, because middleware does not see what a tool stores. If the middleware would change a key, the key is
// hashed instead: redacted keys could be equal, and different sources would become one reference.
func redactReference(inv agent.Invocation, ref *agent.Reference) error {
	if inv.Redact == nil {
		return nil
	}
	var err error
	if ref.Item, err = inv.Redact(ref.Item); err != nil {
		return fmt.Errorf("redact reference: %w", err)
	}
	keys := []*string{&ref.Key}
	for i := range ref.Aliases {
		keys = append(keys, &ref.Aliases[i])
	}
	for _, key := range keys {
		raw, err := tool.EncodeJSON(*key)
		if err != nil {
			return err
		}
		redacted, err := inv.Redact(raw)
		if err != nil {
			return fmt.Errorf("redact reference: %w", err)
		}
		var text string
		if json.Unmarshal(redacted, &text) != nil || text != *key {
			*key = digest(*key)
		}
	}
	return nil
}
