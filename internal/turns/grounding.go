package turns

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retrieval"
)

// addContext adds the prompt of the chosen branch, the session and the passages that were found to a request. They come after the plan's prompt,
// which does not change, so that the provider can cache it.
func (r *modelRun) addContext(ctx context.Context) error {
	r.request.About = "Session: " + string(r.turn.SessionID)
	if len(r.plan.Prepare) > 0 {
		var err error
		if r.prepared, _, err = r.ts.Store.Prepared(ctx, r.turn.TurnID); err != nil {
			return fmt.Errorf("load preparation: %w", err)
		}
		branch := findBranch(&r.plan, r.prepared.Branch)
		if branch != nil {
			r.request.System = branch.System
		}
		if branch == nil || branch.Retrieve {
			r.request.About += passagesText(r.prepared.Passages)
		}
	}
	r.request.System = strings.TrimSpace(r.request.System)
	return nil
}

// filterQuote passes a quotation through the middleware as if the model had said it. It returns "" if a middleware blocks it.
func (r *modelRun) filterQuote(ctx context.Context, text string) string {
	var call agent.ModelFunc = func(context.Context, agent.Invocation, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
		return agent.ModelReply{Blocks: []agent.Block{agent.Text(text)}, FinishReason: agent.FinishStop}, nil
	}
	for _, m := range slices.Backward(r.chain) {
		call = m.WrapModel(call)
	}
	reply, err := call(ctx, r.invocation(), agent.ModelRequest{Profile: r.profile.Profile}, func(agent.Delta) error { return nil })
	if err != nil {
		return ""
	}
	return agent.Normalize(reply.Blocks)
}

// findBranch returns the plan's branch of that name, or nil.
func findBranch(p *agent.Plan, name string) *agent.PlanBranch {
	for i := range p.Prepare {
		for j := range p.Prepare[i].Branches {
			if b := &p.Prepare[i].Branches[j]; b.Name == name {
				return b
			}
		}
	}
	return nil
}

// passagesText returns the part of the prompt that quotes the passages, or says that there are none.
func passagesText(passages []agent.Passage) string {
	if len(passages) == 0 {
		return "\n\nContext: nothing was found."
	}
	return "\n\n" + retrieval.QuotePassages(passages)
}

// addCitations annotates a reply with the passages that it cites, and streams the annotations after the text.
func (r *modelRun) addCitations(ctx context.Context, reply *agent.ModelReply) error {
	if len(r.prepared.Passages) == 0 {
		return nil
	}
	var cited []agent.Block
	for i := range reply.Blocks {
		b := &reply.Blocks[i]
		if b.Type != agent.BlockText {
			continue
		}
		if notes := retrieval.Cite(b.Text, r.prepared.Passages); len(notes) > 0 {
			for j := range notes {
				notes[j].CitedText = r.filterQuote(ctx, notes[j].CitedText)
			}
			b.Annotations = append(b.Annotations, notes...)
			cited = append(cited, agent.Block{Type: agent.BlockText, Annotations: notes})
		}
	}
	if len(cited) == 0 {
		return nil
	}
	e := agent.Event{Type: agent.EventContent, ContentBlocks: cited}
	if err := r.ts.emit(r.callerCtx, r.turn.TurnRef, fmt.Sprintf("citations/%d", r.in.Step), e); err != nil {
		return r.noteRuntimeError(err)
	}
	return nil
}
