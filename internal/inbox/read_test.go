package inbox_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/inbox"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// shelf is a store with one result, of turn t1 of acme, and the rows behind references.
type shelf struct {
	inbox.Store

	asked []string // tenant and reference of what was opened
	kept  bool     // the streams of turns
}

func (s *shelf) HasStream(context.Context, agent.TurnID) (bool, error) { return s.kept, nil }

const resultID = "5d6f29ab-3824-49a4-bc98-d659c557b032"

func (s *shelf) Result(_ context.Context, tenant, ref string) (postgres.ResultRow, error) {
	known := ref == "t1" || ref == "nightly 7" || ref == resultID || ref == "artifact://"+resultID
	if !known || (tenant != agent.AnyTenant && tenant != "acme") {
		return postgres.ResultRow{}, agent.Errorf(agent.CodeNotFound, "", "%q is not known", ref)
	}
	return postgres.ResultRow{ResultID: resultID, Tenant: "acme", TurnID: "t1"}, nil
}

func (s *shelf) ResultMetadata(_ context.Context, tenant string, id agent.TurnID) (agent.ResultMetadata, error) {
	return agent.ResultMetadata{JobID: tenant + "/" + string(id)}, nil
}

func (s *shelf) Open(_ context.Context, tenant, ref string) (io.ReadCloser, error) {
	s.asked = append(s.asked, tenant+" "+ref)
	if ref == "cas://gone" {
		return nil, errors.New("gone")
	}
	return io.NopCloser(strings.NewReader("[]")), nil
}

func TestDataset(t *testing.T) {
	cases := map[string]struct {
		tenant, ref string
		opened      string
		code        agent.Code
	}{
		"by turn":             {"acme", "t1", "acme artifact://" + resultID, ""},
		"by job":              {"acme", "nightly 7", "acme artifact://" + resultID, ""},
		"by result id":        {"acme", resultID, "acme artifact://" + resultID, ""},
		"by reference":        {"acme", "artifact://" + resultID, "acme artifact://" + resultID, ""},
		"whosesoever":         {agent.AnyTenant, "t1", "acme artifact://" + resultID, ""},
		"foreign":             {"other", "t1", "", agent.CodeNotFound},
		"unknown":             {"acme", "t2", "", agent.CodeNotFound},
		"content":             {"acme", "cas://sha256:00", "acme cas://sha256:00", ""},
		"content, of nobody":  {agent.AnyTenant, "cas://sha256:00", "default cas://sha256:00", ""},
		"content, not opened": {"acme", "cas://gone", "acme cas://gone", agent.CodeInternal},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &shelf{}
			b := inbox.New(inbox.Config{Store: s, Results: s})
			body, err := b.Dataset(t.Context(), c.tenant, c.ref)
			require.Equal(t, c.code, agent.CodeOf(err), "%v", err)
			require.Equal(t, c.opened, strings.Join(s.asked, ", "))
			require.Equal(t, c.code == "", body != nil)
		})
	}
	m, err := inbox.New(inbox.Config{Store: &shelf{}}).ResultMetadata(t.Context(), "acme", "t1")
	require.NoError(t, err)
	require.Equal(t, "acme/t1", m.JobID)
}

// stranded has one turn, which was recorded by a door an hour ago and never started.
type stranded struct {
	turns.TurnStore
	turns.Runs

	started agent.TurnID
}

func (s *stranded) Turn(context.Context, agent.TurnID) (agent.TurnState, error) {
	return agent.TurnState{
		Record: agent.TurnRecord{TurnID: "t1", Tenant: "acme", StartByID: true}, State: agent.StateRunning, StartedAt: time.Now().Add(-time.Hour),
	}, nil
}

func (*stranded) Look(context.Context, string) (turns.WorkflowState, error) {
	return turns.WorkflowState{}, nil
}

// remembered is a log that knows how a turn without a record ended.
type remembered struct{ turns.EventLog }

func (remembered) Tail(context.Context, string) (agent.StreamTail, error) {
	return agent.StreamTail{FirstIndex: 1, LastIndex: 2, Closed: true}, nil
}

func (remembered) Follow(context.Context, string, int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		yield(agent.Event{Type: agent.EventStatus, Status: agent.StatusFailed, Result: &agent.AgentStepOutput{Status: agent.TurnFailed}}, nil)
	}
}

// unrecorded has no turn.
type unrecorded struct{ stranded }

func (*unrecorded) Turn(context.Context, agent.TurnID) (agent.TurnState, error) {
	return agent.TurnState{}, agent.Errorf(agent.CodeNotFound, "", "none")
}

// TestDeletedTurnIsUnknown: what a process remembers of a deleted turn is nobody's to read. A turn that was refused has no record either, and
// its stream says why.
func TestDeletedTurnIsUnknown(t *testing.T) {
	s := &unrecorded{}
	cases, err := turns.New(turns.Config{
		Registry: struct{ turns.Registry }{}, Models: struct{ turns.Models }{}, Tools: struct{ turns.Tools }{}, Middleware: struct{ turns.Middleware }{},
		Store: s, Log: remembered{}, Blobs: struct{ turns.Blobs }{}, Runs: s, Schemas: struct{ turns.Schemas }{}, Knowledge: struct{ turns.Knowledge }{},
	})
	require.NoError(t, err)
	for _, kept := range []bool{true, false} {
		b := inbox.New(inbox.Config{Inbox: turns.NewInbox(turns.InboxConfig{Turns: cases}), Store: &shelf{kept: kept}})
		view, err := b.Turn(t.Context(), "acme", "t1")
		if kept {
			require.NoError(t, err)
			require.Equal(t, "failed", view.State)
		} else {
			require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
		}
	}
}

// silent is a log without events.
type silent struct{ turns.EventLog }

func (silent) Tail(context.Context, string) (agent.StreamTail, error) {
	return agent.StreamTail{}, nil
}

func (s *stranded) Start(_ context.Context, t turns.TurnRef) error {
	s.started = t.TurnID
	return nil
}

func (*stranded) PendingBelow(context.Context, agent.TurnID) ([]agent.Approval, error) {
	return nil, nil
}

// TestReadingStartsATurn: whoever looks at a turn that was never started has it started, and does not end it.
func TestReadingStartsATurn(t *testing.T) {
	s := &stranded{}
	cases, err := turns.New(turns.Config{
		Registry: struct{ turns.Registry }{}, Models: struct{ turns.Models }{}, Tools: struct{ turns.Tools }{}, Middleware: struct{ turns.Middleware }{},
		Store: s, Log: silent{}, Blobs: struct{ turns.Blobs }{}, Runs: s, Schemas: struct{ turns.Schemas }{}, Knowledge: struct{ turns.Knowledge }{},
	})
	require.NoError(t, err)
	b := inbox.New(inbox.Config{Inbox: turns.NewInbox(turns.InboxConfig{Turns: cases}), Store: &shelf{}})
	view, err := b.Turn(t.Context(), "acme", "t1")
	require.NoError(t, err)
	require.Equal(t, agent.StateRunning, view.State)
	require.Nil(t, view.Output)
	require.Equal(t, agent.TurnID("t1"), s.started)
	_, err = b.Turn(t.Context(), "other", "t1")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
}
