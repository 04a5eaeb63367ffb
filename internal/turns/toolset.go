package turns

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of listing the tools of a plan's sources.
const (
	listTimeout    = 10 * time.Second // for all sources together
	maxListedTools = 2000
)

// firstStep is the step of a turn's first model call.
const firstStep = 1

// toolset returns the plan of a turn with all tools of the turn: those of the plan and those that the plan's sources had at the first step, without the
// ones that the limits forbid, and the client-side tools of the request.
func (ts *Turns) toolset(ctx context.Context, exec *executor, f *facts, step int) (agent.Plan, error) {
	plan, err := ts.allTools(ctx, exec, f, step)
	if limits := plan.Limits.Lower(&f.limits); err == nil && limits.Tools != nil {
		plan.Tools = slices.DeleteFunc(slices.Clone(plan.Tools), func(t agent.PlanTool) bool { return !limits.MayCall(t.Spec.Name) })
	}
	plan.Tools = append(slices.Clip(plan.Tools), f.client...)
	return plan, err
}

func (ts *Turns) allTools(ctx context.Context, exec *executor, f *facts, step int) (agent.Plan, error) {
	plan := exec.plan
	if len(plan.Sources) == 0 || step < firstStep {
		return plan, nil
	}
	if f.tools == nil {
		found, err := ts.turnTools(ctx, &plan, f, step)
		if err != nil {
			return plan, fmt.Errorf("tools of turn %s: %w", f.TurnID, err)
		}
		f.tools = &found
		ts.remember(*f)
	}
	plan.Tools = append(slices.Clip(plan.Tools), f.tools.Tools...)
	return plan, nil
}

// turnTools returns the tools of the plan's sources. At the first step it lists and stores them; later it returns the stored ones. It stores nothing if
// there are no tools.
func (ts *Turns) turnTools(ctx context.Context, plan *agent.Plan, f *facts, step int) (agent.TurnTools, error) {
	if step > firstStep {
		kept, _, err := ts.Store.TurnTools(ctx, f.TurnID)
		return kept, err
	}
	found := ts.listSources(ctx, plan, f)
	if ctx.Err() != nil {
		return agent.TurnTools{}, context.Cause(ctx)
	}
	if len(found.Tools) == 0 && len(found.Missing) == 0 {
		return found, nil
	}
	kept, err := ts.Store.SaveTurnTools(ctx, f.TurnID, found)
	if err != nil || len(kept.Missing) == 0 {
		return kept, err
	}
	note := agent.Event{Type: agent.EventStatus, Status: agent.StatusRunning, Reason: missingTools(&kept)}
	return kept, ts.emit(ctx, f.TurnRef, "tools", note)
}

// listSources lists the tools of all sources in parallel. The names of sources that fail are in Missing. A tool whose name is taken is left out.
func (ts *Turns) listSources(ctx context.Context, plan *agent.Plan, f *facts) agent.TurnTools {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	listed := make([][]agent.ListedTool, len(plan.Sources))
	faults := make([]error, len(plan.Sources))
	var asking errgroup.Group
	for i := range plan.Sources {
		asking.Go(func() error {
			listed[i], faults[i] = ts.Tools.List(ctx, f.Tenant, &plan.Sources[i])
			return nil
		})
	}
	_ = asking.Wait() // the errors are in faults
	var out agent.TurnTools
	taken := make(map[string]bool, len(plan.Tools))
	for i := range plan.Tools {
		taken[plan.Tools[i].Spec.Name] = true
	}
	for i := range f.client {
		taken[f.client[i].Spec.Name] = true
	}
	for i := range plan.Sources {
		s := &plan.Sources[i]
		if faults[i] != nil {
			ts.log(ctx).Warn("list tools", zap.String("binding", s.Binding), zap.Error(faults[i]))
			out.Missing = append(out.Missing, s.Binding)
			continue
		}
		for _, l := range listed[i] {
			if len(s.Only) > 0 && !slices.Contains(s.Only, l.Spec.Name) {
				continue
			}
			if taken[l.Spec.Name] || len(out.Tools) == maxListedTools {
				ts.log(ctx).Warn("a tool is left out: its name is taken, or there are too many", zap.String("binding", s.Binding), zap.String("tool", l.Spec.Name))
				continue
			}
			taken[l.Spec.Name] = true
			out.Tools = append(out.Tools, agent.PlanTool{
				Spec: l.Spec, Toolkit: s.Toolkit, Binding: s.Binding, Node: s.Node, SourceNodeName: s.SourceNodeName, IsFromToolkit: s.IsFromToolkit,
				Approval: s.Approval, Parameters: s.Parameters, Auth: s.Auth, Deferred: s.Deferred, Handle: l.Handle, Kind: l.Kind,
			})
		}
	}
	return out
}

// findGranted returns a tool of a turn by its name, and its code. ok is false if the turn does not have the tool.
func (ts *Turns) findGranted(ctx context.Context, plan *agent.Plan, tenant, name string) (t agent.PlanTool, code agent.Tool, ok bool, err error) {
	t, ok = plan.Tool(name)
	if !ok {
		return t, nil, false, nil
	}
	if t.Spec.ClientSide {
		return t, clientTool{spec: t.Spec}, true, nil
	}
	code, err = ts.Tools.Granted(ctx, tenant, &t)
	return t, code, true, err
}
