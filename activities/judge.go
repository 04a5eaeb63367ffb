package activities

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxCallID  = 128
	maxSummary = 100
)

// tidyCalls makes the calls of a reply fit to run: every id present, short and unique, arguments an object. A call whose
// arguments did not parse stays a call, with Error set, so that its result can tell the model.
func tidyCalls(blocks []agent.Block) error {
	seen := make(map[string]bool, len(blocks))
	n := 0
	for i := range blocks {
		b := &blocks[i]
		if b.Type == agent.BlockInvalidToolCall {
			b.Type, b.Args = agent.BlockToolCall, json.RawMessage("{}")
			if b.Error == "" {
				b.Error = "the arguments are not a JSON object"
			}
		}
		if b.Type != agent.BlockToolCall {
			continue
		}
		if n++; n > maxCallsPerReply {
			return agent.Errorf(agent.CodeOverflow, "call model", "the model asked for more than %d tools at once", maxCallsPerReply)
		}
		if len(b.ID) > maxCallID {
			b.ID = b.ID[:maxCallID]
		}
		if b.ID == "" || seen[b.ID] {
			b.ID = fmt.Sprintf("%s_%d", b.ID[:min(len(b.ID), maxCallID-8)], n)
		}
		seen[b.ID] = true
		if len(b.Args) == 0 {
			b.Args = json.RawMessage("{}")
		}
	}
	return nil
}

// judge computes what the core must know of each call: whether it may run as a local activity and whether a person is asked first.
// Safe by default: a call is gated unless the tool is inherently safe, the plan allows it, or this call has no side effects.
func (a *Activities) judge(p *agent.Plan, blocks []agent.Block) []agent.CallVerdict {
	var out []agent.CallVerdict
	for i := range blocks {
		b := &blocks[i]
		if b.Type != agent.BlockToolCall {
			continue
		}
		v := agent.CallVerdict{ID: agent.CallID(b.ID), Name: b.Name, Summary: b.Name}
		granted, ok := p.Tool(b.Name)
		tool, err := a.Tools.Tool(granted.Toolkit, b.Name)
		if !ok || err != nil || b.Error != "" {
			v.Local = true // answered with a refusal, which costs nothing
			out = append(out, v)
			continue
		}
		free := effectFree(tool, b.Args)
		v.Local = free
		v.Gate, v.Rule = gate(&granted, free)
		if s, ok := tool.(agent.Summarizer); ok {
			v.Summary = clip(b.Name+"("+s.Summarize(b.Args)+")", maxSummary)
		}
		out = append(out, v)
	}
	return out
}

// gate says whether a person is asked before a call, and by which rule.
func gate(t *agent.PlanTool, free bool) (g agent.Gate, rule string) {
	switch {
	case t.Approval == agent.ApproveAlways:
		return agent.GateApproval, "always asked"
	case t.Approval == agent.ApproveNever, free, t.Spec.InherentlySafe:
		return "", ""
	default:
		return agent.GateApproval, "not inherently safe"
	}
}

func effectFree(t agent.Tool, args json.RawMessage) bool {
	f, ok := t.(agent.EffectFree)
	return ok && f.EffectFree(args)
}

// clip cuts s to at most n bytes at a rune's edge.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-3], "") + "…"
}
