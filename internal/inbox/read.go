package inbox

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"strings"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
)

// Turn returns the state of a turn. A turn whose workflow was terminated is ended first. While Temporal does not answer, the recorded state is
// returned.
func (b *Inbox) Turn(ctx context.Context, tenant string, id agent.TurnID) (gateway.TurnView, error) {
	t, err := b.Turns.Store.Turn(ctx, id)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return b.turnWithoutRecord(ctx, id)
	}
	if err != nil {
		return gateway.TurnView{}, err
	}
	if tenant != agent.AnyTenant && t.Record.Tenant != tenant {
		return gateway.TurnView{}, unknownTurn(id)
	}
	if t.Output == nil {
		ended, err := b.Turns.EndIfOrphaned(ctx, &t)
		if err != nil {
			b.Turns.Logger.Info("check who drives a turn", logs.Turn(id, t.Record.Tenant, t.Record.InstanceID), zap.Error(err))
		}
		if ended {
			if t, err = b.Turns.Store.Turn(ctx, id); err != nil {
				return gateway.TurnView{}, err
			}
		}
	}
	v := gateway.TurnView{
		TurnID: id, SessionID: t.Record.SessionID, StreamID: string(id), Tenant: t.Record.Tenant, Agent: t.Record.Agent, State: t.State,
		UserID: t.Record.UserID,
		Mode:   cmp.Or(t.Record.Mode, agent.ModeDurable), Fallback: t.Record.Fallback, StartedAt: t.StartedAt, Output: t.Output,
		RerunOf: t.RerunOf, FromStep: t.FromStep, Draft: t.Record.Route != nil && t.Record.Route.Reason == agent.RouteDraft,
	}
	if v.Tail, err = b.Turns.Log.Tail(ctx, string(id)); err != nil {
		return gateway.TurnView{}, err
	}
	if t.Output == nil {
		if v.Pending, err = b.Turns.Store.PendingBelow(ctx, id); err != nil {
			return gateway.TurnView{}, err
		}
		if len(v.Pending) > 0 {
			v.State = agent.StateWaiting
		}
	}
	return v, nil
}

// turnWithoutRecord returns the state of a turn that has just been started or was refused. Any other turn is [agent.CodeNotFound].
func (b *Inbox) turnWithoutRecord(ctx context.Context, id agent.TurnID) (gateway.TurnView, error) {
	v := gateway.TurnView{TurnID: id, StreamID: string(id), State: agent.StateQueued}
	var err error
	if v.Tail, err = b.Turns.Log.Tail(ctx, string(id)); err != nil {
		return gateway.TurnView{}, err
	}
	if v.Tail.Closed {
		if kept, err := b.HasStream(ctx, id); err != nil || !kept { // it was deleted
			return gateway.TurnView{}, cmp.Or(err, unknownTurn(id))
		}
		for e, err := range b.Turns.Log.Follow(ctx, string(id), v.Tail.LastIndex-1) {
			if err != nil {
				return gateway.TurnView{}, err
			}
			if e.Terminal() && e.Result != nil {
				v.Output, v.State = e.Result, string(e.Result.Status)
			}
		}
		return v, nil
	}
	workflow, err := b.Runs.Look(ctx, id.WorkflowID())
	if err != nil {
		return gateway.TurnView{}, err
	}
	if !workflow.Running {
		return gateway.TurnView{}, unknownTurn(id)
	}
	return v, nil
}

func unknownTurn(id agent.TurnID) error {
	return agent.Errorf(agent.CodeNotFound, "", "there is no turn %q", id)
}

// Result opens a stored result by an artifact:// or cas:// reference, a result id, a turn id or a job id.
func (b *Inbox) Result(ctx context.Context, tenant, ref string) (gateway.ResultView, error) {
	if strings.HasPrefix(ref, casScheme) {
		body, err := b.Blobs.Open(ctx, contentTenant(tenant), ref)
		return gateway.ResultView{Ref: ref, Size: -1, Body: body}, err
	}
	row, err := b.Store.Result(ctx, tenant, ref)
	if err != nil {
		return gateway.ResultView{}, err
	}
	v := gateway.ResultView{Ref: row.Output.ResultRef, TurnID: row.TurnID}
	data, stored := row.Document(), row.ContentRef()
	if len(data) > 0 || stored == "" {
		if len(data) == 0 {
			data = []byte("null")
		}
		v.Size, v.Body = int64(len(data)), io.NopCloser(bytes.NewReader(data))
		return v, nil
	}
	v.Size = -1
	v.Body, err = b.Blobs.Open(ctx, row.Tenant, stored)
	return v, err
}

// Dataset opens the rows of a result, which is named as for Result.
func (b *Inbox) Dataset(ctx context.Context, tenant, ref string) (io.ReadCloser, error) {
	if strings.HasPrefix(ref, casScheme) {
		return b.Results.Open(ctx, contentTenant(tenant), ref)
	}
	row, err := b.Store.Result(ctx, tenant, ref)
	if err != nil {
		return nil, err
	}
	return b.Results.Open(ctx, row.Tenant, artifactScheme+row.ResultID)
}

// The schemes of references.
const (
	casScheme      = "cas://"
	artifactScheme = "artifact://"
)

// contentTenant returns the tenant whose content a cas:// reference names: the default one for callers of every tenant.
func contentTenant(tenant string) string {
	if tenant == agent.AnyTenant {
		return agent.DefaultTenant
	}
	return tenant
}

// Messages returns a page of a session's transcript.
func (b *Inbox) Messages(ctx context.Context, tenant string, s agent.SessionID, after int64, limit int) (gateway.MessagePage, error) {
	rows, err := b.Store.Messages(ctx, tenant, s, after, limit+1)
	if err != nil {
		return gateway.MessagePage{}, err
	}
	page := gateway.MessagePage{SessionID: s, Messages: []gateway.SessionMessage{}, Next: after, More: len(rows) > limit}
	for i := range rows[:min(len(rows), limit)] {
		m := &rows[i]
		page.Messages = append(page.Messages, gateway.SessionMessage{
			Position: m.Position, TurnID: m.TurnID, CreatedAt: m.CreatedAt, Role: m.Message.Role, Blocks: m.Message.Blocks,
		})
		page.Next = m.Position
	}
	return page, nil
}

// Health returns the health of every dependency.
func (b *Inbox) Health(ctx context.Context) gateway.Health { return b.Config.Health(ctx) }
