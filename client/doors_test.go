package client_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

func TestApprovalsAndSessions(t *testing.T) {
	rt, c := serve(t, nil)
	ctx := t.Context()
	_, err := c.Start(ctx, agent.TurnRequest{Message: "x", TurnID: "t.1", SessionID: "s"})
	require.NoError(t, err)
	for _, id := range []string{"t.1.1.a", "t.1.1.b/c"} {
		rt.Emit("t.1", agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{ApprovalID: id, Allowed: []agent.DecisionKind{agent.DecisionApprove}}})
	}
	page, err := c.Approvals(ctx, agent.ApprovalQuery{State: "pending", SessionID: "s", TurnID: "t.1", Limit: 1})
	require.NoError(t, err)
	require.Equal(t, "t.1.1.a", page.Approvals[0].ApprovalID)
	page, err = c.Approvals(ctx, agent.ApprovalQuery{Limit: 1, After: page.Next})
	require.NoError(t, err)
	require.Equal(t, "t.1.1.b/c", page.Approvals[0].ApprovalID)
	require.Empty(t, page.Next)
	a, err := c.Approval(ctx, "t.1.1.b/c")
	require.NoError(t, err)
	require.Equal(t, agent.TurnID("t.1"), a.TurnID)
	require.Equal(t, []agent.DecisionKind{agent.DecisionApprove}, a.Allowed)
	_, err = c.Approval(ctx, "..")
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))

	renamed, err := c.RenameSession(ctx, "s", "Flights")
	require.NoError(t, err)
	require.Equal(t, "Flights", renamed.Title)
	list, err := c.Sessions(ctx, agent.SessionQuery{SessionID: "s", Status: []string{agent.StateRunning, agent.StateWaiting}})
	require.NoError(t, err)
	require.Equal(t, []agent.SessionSummary{renamed}, list.Sessions)
	_, err = c.RenameSession(ctx, "none", "Flights")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	_, err = c.DeleteSession(ctx, "s")
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
	rt.Say("t.1", "done")
	export, err := c.ExportSession(ctx, "s")
	require.NoError(t, err)
	require.Equal(t, "done", export.Turns[0].Output.Output)
	gone, err := c.DeleteSession(ctx, "s")
	require.NoError(t, err)
	require.Equal(t, agent.SessionDeleted{SessionID: "s", Turns: 1, Messages: 1}, gone)
}

func TestKnowledge(t *testing.T) {
	rt, c := serve(t, nil)
	rt.Collections = []string{"handbook"}
	ctx := t.Context()
	const source = "https://example.com//a b?c=d&e=ü"
	added, err := c.AddKnowledge(ctx, client.File{
		Collection: "handbook", Title: "T", Source: source, MIMEType: "text/plain", Metadata: json.RawMessage(`{"k":1}`),
		Body: io.MultiReader(strings.NewReader("be "), strings.NewReader("kind")),
	})
	require.NoError(t, err)
	require.Equal(t, source, added[0].ID)
	require.Equal(t, "text/plain", added[0].MIMEType)
	require.Equal(t, int64(7), added[0].Bytes)
	require.JSONEq(t, `{"k":1}`, string(added[0].Metadata))
	_, err = c.AddKnowledge(ctx, client.File{Collection: "handbook", ID: "b", Body: strings.NewReader("be kind")})
	require.NoError(t, err)
	_, err = c.AddKnowledge(ctx, client.File{Collection: "nowhere", ID: "b", Body: strings.NewReader("be kind")})
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))

	page, err := c.Knowledge(ctx, "handbook", agent.Page{Size: 1})
	require.NoError(t, err)
	require.Equal(t, "b", page.Documents[0].ID)
	page, err = c.Knowledge(ctx, "handbook", agent.Page{Size: 1, Token: page.Next})
	require.NoError(t, err)
	require.Equal(t, source, page.Documents[0].ID)
	passages, err := c.SearchKnowledge(ctx, "handbook", "kind", 1)
	require.NoError(t, err)
	require.Len(t, passages, 1)
	require.NoError(t, c.DeleteKnowledge(ctx, "handbook", source))
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(c.DeleteKnowledge(ctx, "handbook", source)))
}

func checksOf(ctx context.Context, c *client.Client, profile string) (names []string, err error) {
	for check, err := range c.Doctor(ctx, "analyst", profile) {
		if err != nil {
			return names, err
		}
		names = append(names, check.Name)
	}
	return names, nil
}

func TestDoctor(t *testing.T) {
	rt, c := serve(t, nil)
	rt.Examine = func(_ context.Context, name, profile string, report func(gateway.DoctorCheck)) error {
		report(gateway.DoctorCheck{Name: name})
		report(gateway.DoctorCheck{Name: profile})
		if profile == "limited" {
			return agent.Errorf(agent.CodeRateLimited, "", "enough")
		}
		return nil
	}
	names, err := checksOf(t.Context(), c, "fast")
	require.NoError(t, err)
	require.Equal(t, []string{"analyst", "fast"}, names)
	for range c.Doctor(t.Context(), "", "") {
		break // and nobody is called again
	}
	_, err = checksOf(t.Context(), c, "limited")
	require.Equal(t, agent.CodeRateLimited, agent.CodeOf(err))
}

// A visit that breaks off is never taken for a good end.
func TestDoctorBreaksOff(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "a check": "event: check\ndata: {\"name\":\"x\",\"ok\":true}\n\n", "half an end": "event: end\ndata: {\"ok\":tr",
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
			defer s.Close()
			_, err := checksOf(t.Context(), dial(t, s.URL, nil), "")
			require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "%v", err)
		})
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	_, err := checksOf(t.Context(), dial(t, s.URL, func(c *client.Config) { c.LongTimeout = 30 * time.Millisecond }), "")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
}
