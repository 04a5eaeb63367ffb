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

	effectsTimeout = 15 * time.Second // for the effect checks of all calls of one reply
	// ruleNotSafe is the rule of an approval that no policy asks for.
	ruleNotSafe = "not inherently safe"
)

// normalizeCalls gives every call of a reply a short unique id and an object as arguments. A call whose arguments did not parse remains a call, with
// Error set, so that its result tells the model.
func normalizeCalls(blocks []agent.Block) error {
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

// judgeCalls returns the verdict on each call of a reply: whether it may run as a local activity, whether it is a child turn or a client-side tool, and
// whether it needs an approval.
func (r *modelRun) judgeCalls(ctx context.Context, blocks []agent.Block) ([]agent.CallVerdict, error) {
	var out []agent.CallVerdict
	var keys []agent.RememberKey // of gated calls whose decisions may be remembered
	checkCtx, cancel := context.WithTimeout(ctx, effectsTimeout)
	defer cancel()
	for i := range blocks {
		b := &blocks[i]
		if b.Type != agent.BlockToolCall {
			continue
		}
		v := agent.CallVerdict{ID: agent.CallID(b.ID), Name: b.Name, Summary: b.Name}
		granted, tool, ok, err := r.ts.findGranted(ctx, &r.plan, r.turn.Tenant, b.Name)
		if !ok || err != nil || b.Error != "" {
			v.Local = true // CallTool only refuses it
			out = append(out, v)
			continue
		}
		v.Client = granted.Spec.ClientSide
		v.Child = isDelegation(tool, b.Args, r.plan.Delegates)
		var gate agent.GateVerdict
		if v.Local, gate, err = r.gateCall(checkCtx, &granted, tool, b.Args); err != nil {
			return nil, err
		}
		if gate.Gate == agent.GateApproval {
			v.Gate, v.Rule = gate.Gate, clip.Bytes(gate.Rule, maxSummary)
			if gate.Remember != agent.RememberOff {
				keys = append(keys, agent.RememberKey{Tool: b.Name, ArgsHash: argsHash(b.Args)})
			}
		}
		if s, ok := tool.(agent.Summarizer); ok {
			v.Summary = clip.Bytes(b.Name+"("+s.Summarize(b.Args)+")", maxSummary)
		}
		out = append(out, v)
	}
	return out, r.applyRemembered(ctx, blocks, out, keys)
}

// gateCall reports whether a call has no side effects, and whether it needs an approval. If it would need one only because of its effects, and the tool
// implements [agent.EffectChecker], gateCall lets the tool check the call.
func (r *modelRun) gateCall(
	ctx context.Context, granted *agent.PlanTool, tool agent.Tool, args json.RawMessage,
) (noEffects bool, gate agent.GateVerdict, err error) {
	noEffects = isEffectFree(tool, args)
	gate, err = callGate(granted, r.chain, &r.turn, args, noEffects)
	checker, ok := tool.(agent.EffectChecker)
	if err != nil || noEffects || !ok || gate.Gate != agent.GateApproval || granted.Approval == agent.ApproveAlways {
		return noEffects, gate, err
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

// applyRemembered applies remembered decisions of the session to the gated calls with these keys.
func (r *modelRun) applyRemembered(ctx context.Context, blocks []agent.Block, verdicts []agent.CallVerdict, keys []agent.RememberKey) error {
	if len(keys) == 0 {
		return nil
	}
	decisions, err := r.ts.loadRemembered(ctx, &r.turn, keys)
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
		if !slices.Contains(keys, key) {
			continue
		}
		i := slices.IndexFunc(decisions, func(d agent.Remembered) bool {
			return d.Key.Tool == key.Tool && (d.Key.ArgsHash == "" || d.Key.ArgsHash == key.ArgsHash)
		})
		if i < 0 {
			continue
		}
		v.Gate, v.Rule = agent.GateNone, ""
		if d := &decisions[i]; d.Decision == agent.DecisionReject {
			v.Gate, v.Rule = agent.GateDenied, clip.Bytes(cmp.Or(d.Message, "a person rejected calls like this one"), maxSummary)
		}
	}
	return nil
}

// callGate returns whether and how a call is gated: by the tool's policy, then by middleware, then by the allow list of the turn's approval policy.
func callGate(t *agent.PlanTool, chain []agent.Middleware, turn *facts, args json.RawMessage, noEffects bool) (agent.GateVerdict, error) {
	v := toolGate(t, noEffects)
	call := agent.GatedCall{Tool: *t, Args: args, EffectFree: noEffects, Tenant: turn.Tenant, UserID: turn.user, UserRole: turn.role}
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

// toolGate returns the gate of the tool's own policy. A call is gated unless the plan never asks, the tool is inherently safe, or the call has no side
// effects.
func toolGate(t *agent.PlanTool, noEffects bool) agent.GateVerdict {
	switch {
	case t.Approval == agent.ApproveAlways:
		return agent.GateVerdict{Gate: agent.GateApproval, Rule: "always asked"}
	case t.Approval == agent.ApproveNever, noEffects, t.Spec.InherentlySafe:
		return agent.GateVerdict{Gate: agent.GateNone}
	default:
		return agent.GateVerdict{Gate: agent.GateApproval, Rule: ruleNotSafe}
	}
}

// argsHash returns the SHA-256 of the arguments in canonical form, which does not depend on spacing or on the order of members.
func argsHash(args json.RawMessage) string {
	canonical := slices.Clone(jsontext.Value(args))
	if err := canonical.Canonicalize(); err != nil {
		canonical = jsontext.Value(args)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// isDelegation reports whether a call becomes a child turn of one of the agents in delegates.
func isDelegation(t agent.Tool, args json.RawMessage, delegates []string) bool {
	d, ok := t.(agent.Delegator)
	if !ok {
		return false
	}
	_, isChild, err := d.Delegate(args, delegates)
	return isChild && err == nil
}

func isEffectFree(t agent.Tool, args json.RawMessage) bool {
	f, ok := t.(agent.EffectFree)
	return ok && f.EffectFree(args)
}
