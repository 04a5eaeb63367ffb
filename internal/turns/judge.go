package turns

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

const (
	maxCallID  = 128
	maxSummary = 100

	effectsPatience = 15 * time.Second // for tools that read something to judge the calls of one reply
	// ruleNotSafe is the reason for the gate of a call that no policy mentions.
	ruleNotSafe = "not inherently safe"
)

// tidyCalls gives every call of a reply a short unique id and an object as arguments. A call whose arguments did not parse stays a call with
// Error set, so that the model is told by its result.
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

// judgeCalls returns the verdict on each call of a reply: whether it may run as a local activity, whether it is a turn of another agent or runs
// at the caller, and whether a person is asked first.
func (r *modelRun) judgeCalls(ctx context.Context, blocks []agent.Block) ([]agent.CallVerdict, error) {
	var out []agent.CallVerdict
	var asked []agent.RememberKey // of gated calls whose decisions may be remembered
	reading, done := context.WithTimeout(ctx, effectsPatience)
	defer done()
	for i := range blocks {
		b := &blocks[i]
		if b.Type != agent.BlockToolCall {
			continue
		}
		v := agent.CallVerdict{ID: agent.CallID(b.ID), Name: b.Name, Summary: b.Name}
		granted, tool, ok, err := r.ts.findGranted(ctx, &r.plan, r.turn.Tenant, b.Name)
		if !ok || err != nil || b.Error != "" {
			v.Local = true // answered with a refusal, which costs nothing
			out = append(out, v)
			continue
		}
		v.Client = granted.Spec.ClientSide
		v.Child = isDelegation(tool, b.Args, r.plan.Delegates)
		var gate agent.GateVerdict
		if v.Local, gate, err = r.gateCall(reading, &granted, tool, b.Args); err != nil {
			return nil, err
		}
		if gate.Gate == agent.GateApproval {
			v.Gate, v.Rule = gate.Gate, clip.Bytes(gate.Rule, maxSummary)
			if gate.Remember != agent.RememberOff {
				asked = append(asked, agent.RememberKey{Tool: b.Name, ArgsHash: argsHash(b.Args)})
			}
		}
		if s, ok := tool.(agent.Summarizer); ok {
			v.Summary = clip.Bytes(b.Name+"("+s.Summarize(b.Args)+")", maxSummary)
		}
		out = append(out, v)
	}
	return out, r.applyRemembered(ctx, blocks, out, asked)
}

// gateCall reports whether a call is free of effects, and whether a person is asked before it. A tool that can find out what the call does is
// asked first.
func (r *modelRun) gateCall(
	ctx context.Context, granted *agent.PlanTool, tool agent.Tool, args json.RawMessage,
) (free bool, gate agent.GateVerdict, err error) {
	free = effectFree(tool, args)
	gate, err = callGate(granted, r.chain, &r.turn, args, free)
	checker, ok := tool.(agent.EffectChecker)
	if err != nil || free || !ok || gate.Gate != agent.GateApproval || granted.Approval == agent.ApproveAlways {
		return free, gate, err
	}
	inv := agent.Invocation{
		Tenant: r.turn.Tenant, TurnID: r.turn.TurnID, SessionID: r.turn.SessionID, UserID: r.turn.user, UserRole: r.turn.role, Step: r.in.Step,
		Parameters: granted.Parameters, Auth: granted.Auth,
		Open: func(ctx context.Context, ref string) (io.ReadCloser, error) {
			return r.ts.Blobs.Open(ctx, r.turn.Tenant, ref)
		},
	}
	if !checker.CheckEffects(ctx, inv, args) {
		return false, gate, nil
	}
	gate, err = callGate(granted, r.chain, &r.turn, args, true)
	return true, gate, err
}

// applyRemembered applies remembered decisions of the session to gated calls.
func (r *modelRun) applyRemembered(ctx context.Context, blocks []agent.Block, verdicts []agent.CallVerdict, asked []agent.RememberKey) error {
	if len(asked) == 0 {
		return nil
	}
	known, err := r.ts.remembered(ctx, &r.turn, asked)
	if err != nil {
		return r.approvalsUnavailable(ctx, verdicts, err)
	}
	for i := range verdicts {
		v := &verdicts[i]
		if v.Gate != agent.GateApproval {
			continue
		}
		block, err := callOf(blocks, v.ID)
		if err != nil {
			return err
		}
		key := agent.RememberKey{Tool: v.Name, ArgsHash: argsHash(block.Args)}
		if !slices.Contains(asked, key) {
			continue
		}
		for _, m := range known {
			if m.Key.Tool != key.Tool || (m.Key.ArgsHash != "" && m.Key.ArgsHash != key.ArgsHash) {
				continue
			}
			v.Gate, v.Rule = agent.GateNone, ""
			if m.Decision == agent.DecisionReject {
				v.Gate, v.Rule = agent.GateDenied, clip.Bytes(cmp.Or(m.Message, "a person rejected calls like this one"), maxSummary)
			}
			break
		}
	}
	return nil
}

// callGate reports whether a person is asked before a call, and how: by the tool's policy, then middleware, then the list of the channel or
// the schedule.
func callGate(t *agent.PlanTool, chain []agent.Middleware, turn *facts, args json.RawMessage, free bool) (agent.GateVerdict, error) {
	v := toolGate(t, free)
	call := agent.GatedCall{Tool: *t, Args: args, EffectFree: free, Tenant: turn.Tenant, UserID: turn.user, UserRole: turn.role}
	for _, m := range chain {
		g, ok := m.(agent.Gater)
		if !ok {
			continue
		}
		var err error
		if v, err = g.Gate(call, v); err != nil {
			return v, err
		}
	}
	if v.Gate == agent.GateApproval && t.Approval != agent.ApproveAlways && turn.policy.Allows(t.Spec.Name) {
		return agent.GateVerdict{Gate: agent.GateNone}, nil
	}
	return v, nil
}

// toolGate returns the gate by the tool's own policy. A call is gated unless the tool is inherently safe, the plan allows it, or the call has no
// side effects.
func toolGate(t *agent.PlanTool, free bool) agent.GateVerdict {
	switch {
	case t.Approval == agent.ApproveAlways:
		return agent.GateVerdict{Gate: agent.GateApproval, Rule: "always asked"}
	case t.Approval == agent.ApproveNever, free, t.Spec.InherentlySafe:
		return agent.GateVerdict{Gate: agent.GateNone}
	default:
		return agent.GateVerdict{Gate: agent.GateApproval, Rule: ruleNotSafe}
	}
}

// argsHash returns the sha256 of the canonical arguments, which does not depend on how the model wrote them.
func argsHash(args json.RawMessage) string {
	canonical := slices.Clone(jsontext.Value(args))
	if err := canonical.Canonicalize(); err != nil {
		canonical = jsontext.Value(args)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// isDelegation reports whether a call is a turn of another agent.
func isDelegation(t agent.Tool, args json.RawMessage, to []string) bool {
	d, ok := t.(agent.Delegator)
	if !ok {
		return false
	}
	_, child, err := d.Delegate(args, to)
	return child && err == nil
}

func effectFree(t agent.Tool, args json.RawMessage) bool {
	f, ok := t.(agent.EffectFree)
	return ok && f.EffectFree(args)
}
