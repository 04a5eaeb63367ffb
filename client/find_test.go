package client_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestFind(t *testing.T) {
	rt, c := serve(t, nil)
	for id, session := range map[agent.TurnID]agent.SessionID{"t1": "s1", "t2": "s2"} {
		_, err := c.Start(t.Context(), agent.TurnRequest{Message: "fetch " + string(id), TurnID: id, SessionID: session})
		require.NoError(t, err)
	}
	rt.Say("t2", "done")
	turns, err := c.Turns(t.Context(), agent.TurnQuery{Status: []string{"completed", "failed"}, Limit: 1})
	require.NoError(t, err)
	require.Len(t, turns.Turns, 1)
	require.Equal(t, []any{agent.TurnID("t2"), "fetch t2", int64(10)}, []any{turns.Turns[0].TurnID, turns.Turns[0].Summary, turns.Turns[0].Usage.InputTokens})
	first, err := c.Sessions(t.Context(), agent.SessionQuery{Limit: 1})
	require.NoError(t, err)
	second, err := c.Sessions(t.Context(), agent.SessionQuery{Limit: 1, After: first.Next})
	require.NoError(t, err)
	require.NotEqual(t, first.Sessions[0].SessionID, second.Sessions[0].SessionID)
	require.Empty(t, second.Next)
	_, err = c.Turns(t.Context(), agent.TurnQuery{Status: []string{"odd"}})
	require.Equal(t, "status", agent.FailureOf(err).Field)
}

// Every field of a query is sent.
func TestFindSendsEveryFilter(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+"?"+r.URL.Query().Encode())
		_, _ = w.Write([]byte(`{}`))
	}))
	defer s.Close()
	c := dial(t, s.URL, nil)
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	_, err := c.Turns(t.Context(), agent.TurnQuery{
		Status: []string{"queued", "failed"}, Agent: "a", UserID: "u", Channel: "c", SessionID: "s", RerunOf: "t", Since: at, Until: at.Add(time.Hour), Text: "x y",
		Limit: 7, After: "p",
	})
	require.NoError(t, err)
	_, err = c.Sessions(t.Context(), agent.SessionQuery{
		Agent: "a", UserID: "u", Channel: "c", Since: at, Until: at.Add(time.Hour), Text: "x y", Limit: 7, After: "p",
	})
	require.NoError(t, err)
	const both = "&since=2026-11-01T00%3A00%3A00Z"
	require.Equal(t, []string{
		"/v1/turns?after=p&agent=a&channel=c&limit=7&rerun_of=t&session=s" + both + "&status=queued%2Cfailed&text=x+y&until=2026-11-01T01%3A00%3A00Z&user=u",
		"/v1/sessions?after=p&agent=a&channel=c&limit=7" + both + "&text=x+y&until=2026-11-01T01%3A00%3A00Z&user=u",
	}, asked)
}
