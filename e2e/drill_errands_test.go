//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
)

const (
	errandsPerSession = 4
	sessionsAtOnce    = 16
	// stalled is how long a drill may see no turn end: longer than any timer that something lost is found by.
	stalled = 4 * time.Minute
)

// errand is one turn of a drill, from its acceptance to its end.
type errand struct {
	name    string
	tools   []string
	mode    agent.Mode
	session agent.SessionID

	receipt agent.Receipt
	events  []agent.Event // as its viewer saw them, over all interruptions
	began   time.Time
	took    time.Duration
	fault   error // of what the viewer saw
}

// errands is a load of turns that runs while a drill makes trouble. A session's turns are begun one after the other without waiting for their ends.
type errands struct {
	*site
	sessions [][]*errand
	cancel   context.CancelFunc
	finished sync.WaitGroup

	mu     sync.Mutex
	done   int
	latest time.Time // when the last turn ended
}

// begin starts so many turns in the background. Most run a tool that must not be repeated and one that may; some wait for a person, some have
// no tool, and some are direct.
func (s *site) begin(load int) *errands {
	e := &errands{site: s, latest: time.Now()}
	for i := range load {
		if i%errandsPerSession == 0 {
			e.sessions = append(e.sessions, nil)
		}
		n := len(e.sessions) - 1
		next := &errand{name: fmt.Sprintf("e%05d", i), tools: []string{"book", "reserve"}, session: agent.SessionID(fmt.Sprintf("drill-%d", n))}
		switch n % 8 {
		case 3:
			next.tools = []string{"pay", "look"}
		case 5:
			next.tools = nil
		case 7:
			next.mode = agent.ModeDirect
		}
		e.sessions[n] = append(e.sessions[n], next)
	}
	var ctx context.Context
	ctx, e.cancel = context.WithCancel(s.t.Context())
	atOnce := make(chan struct{}, sessionsAtOnce)
	e.finished.Go(func() {
		for _, session := range e.sessions {
			atOnce <- struct{}{}
			e.finished.Go(func() {
				defer func() { <-atOnce }()
				e.runSession(ctx, session)
			})
		}
	})
	s.t.Cleanup(func() {
		e.cancel()
		e.finished.Wait()
	})
	return e
}

func (e *errands) runSession(ctx context.Context, session []*errand) {
	var viewers sync.WaitGroup
	for _, next := range session {
		if next.fault = e.accept(ctx, next); next.fault != nil {
			break // a later one would not come behind it
		}
		viewers.Go(func() {
			next.fault = e.view(ctx, next)
			next.took = time.Since(next.began)
			e.mu.Lock()
			e.done++
			e.latest = time.Now()
			e.mu.Unlock()
		})
	}
	viewers.Wait()
}

// accept starts a turn by the same request until it has an answer, as a client library does.
func (e *errands) accept(ctx context.Context, next *errand) error {
	next.began = time.Now()
	request := agent.TurnRequest{
		Message: strings.TrimSpace("errand " + next.name + " " + strings.Join(next.tools, " ")), SessionID: next.session, Mode: next.mode,
		OnBusy: agent.OnBusyQueue, IdempotencyKey: next.name,
	}
	for {
		var err error
		next.receipt, err = e.anyDoor().Start(ctx, request)
		switch code := agent.CodeOf(err); {
		case err == nil:
			return nil
		case code != agent.CodeUnavailable && code != agent.CodeRateLimited, time.Since(next.began) > stalled:
			return fmt.Errorf("start: %w", err)
		}
		if err := pauseFor(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// view follows a turn through whatever door is open, and decides for the person that it waits for.
func (e *errands) view(ctx context.Context, next *errand) error {
	for seen := time.Now(); ; {
		before := len(next.events)
		over, err := e.look(ctx, next)
		switch {
		case over:
			return nil
		case ctx.Err() != nil:
			return errors.New("the drill ended before the turn did")
		case err != nil && agent.CodeOf(err) != agent.CodeUnavailable:
			return fmt.Errorf("follow behind event %d: %w", len(next.events), err)
		case len(next.events) > before:
			seen = time.Now()
		case time.Since(seen) > stalled:
			return fmt.Errorf("no event behind %d for %s: %w", len(next.events), stalled, err)
		}
		if err := pauseFor(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// look follows a turn at one door until that is gone or the turn has ended.
func (e *errands) look(ctx context.Context, next *errand) (over bool, err error) {
	ctx, leave := context.WithTimeout(ctx, stalled)
	defer leave()
	for event, err := range e.anyDoor().Follow(ctx, next.receipt.TurnID, lastIndex(next.events)) {
		switch {
		case err != nil:
			return false, err
		case over:
			return false, agent.Errorf(agent.CodeInternal, "", "event %d behind the end", event.Meta.EventIndex)
		case !isNext(lastIndex(next.events), &event):
			return false, agent.Errorf(agent.CodeInternal, "", "event %d behind %d", event.Meta.EventIndex, lastIndex(next.events))
		}
		next.events = append(next.events, event)
		over = event.Terminal()
		if event.Type == agent.EventApprovalRequested {
			if err := e.decide(ctx, next, event.Approval.ApprovalID); err != nil {
				return false, err
			}
		}
	}
	return over, nil
}

// decide approves until there is an answer. A conflict is one: an earlier try has decided, and its answer was lost.
func (e *errands) decide(ctx context.Context, next *errand, approval string) error {
	decision := agent.Decision{ApprovalID: approval, Decision: agent.DecisionApprove, By: "ops"}
	for began := time.Now(); ; {
		err := e.anyDoor().Decide(ctx, next.receipt.TurnID, decision)
		switch code := agent.CodeOf(err); {
		case err == nil, code == agent.CodeConflict:
			return nil
		case code != agent.CodeUnavailable || time.Since(began) > stalled:
			return fmt.Errorf("decide: %w", err)
		}
		if err := pauseFor(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *errands) doneSoFar() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.done
}

// awaitDone waits until so many turns have ended.
func (e *errands) awaitDone(n int) {
	e.t.Helper()
	for {
		e.mu.Lock()
		done, latest := e.done, e.latest
		e.mu.Unlock()
		if done >= n {
			return
		}
		if time.Since(latest) > stalled+time.Minute {
			e.cancel()
			e.finished.Wait()
			require.Failf(e.t, "the drill stands still", "%d turns have ended, want %d; %v", done, n, e.faults())
		}
		require.NoError(e.t, pauseFor(e.t.Context(), 20*time.Millisecond))
	}
}

// verify waits for the ends of all turns and checks what holds of them whatever happened.
func (e *errands) verify() {
	e.t.Helper()
	e.awaitDone(e.total())
	e.finished.Wait()
	require.Empty(e.t, e.faults(), "%s", e)
	e.verifyStored()
	e.verifyOrder()
	e.awaitIdle("AgentTurn")
}

func (e *errands) total() (n int) {
	for _, session := range e.sessions {
		n += len(session)
	}
	return n
}

// faults lists what was wrong with which turn, the first few of them.
func (e *errands) faults() (found []string) {
	for next := range e.all() {
		if err := e.fault(next); err != nil {
			found = append(found, fmt.Sprintf("turn %s (%s of %s): %v", next.receipt.TurnID, next.name, next.session, err))
		}
	}
	if len(found) > 20 {
		found = append(found[:20], fmt.Sprintf("and %d more", len(found)-20))
	}
	return found
}

// all yields the turns, each session's in its order.
func (e *errands) all() func(yield func(*errand) bool) {
	return func(yield func(*errand) bool) {
		for _, session := range e.sessions {
			for _, next := range session {
				if !yield(next) {
					return
				}
			}
		}
	}
}

// fault is what is wrong with a turn that a viewer saw to its end: it ends as its mode allows, its text is shown once, and no tool has taken effect twice, or not
// at all where the model was told that it did.
func (e *errands) fault(next *errand) error {
	if next.fault != nil {
		return next.fault
	}
	if len(next.events) == 0 || next.events[len(next.events)-1].Result == nil {
		return errors.New("it has no end")
	}
	out := next.events[len(next.events)-1].Result
	isUnknown := out.Output == next.name+" is unknown"
	switch {
	case out.Status != agent.TurnCompleted:
		return fmt.Errorf("it is %s (%s): %+v", out.Status, out.StopReason, out.Error)
	case out.Output != next.name+" is done" && !isUnknown:
		return fmt.Errorf("it says %q", out.Output)
	case streamtest.Shown(next.events) != out.Output:
		return fmt.Errorf("it shows %q, its result is %q; its viewer saw\n%s", streamtest.Shown(next.events), out.Output, listed(next.events))
	}
	for _, tool := range next.tools {
		calls, keys := e.outside.taken(tool, next.name)
		mayRepeat := tool == "reserve" || tool == "look"
		switch {
		case keys > 1 || calls > 1 && !mayRepeat:
			return fmt.Errorf("%s took effect %d times under %d keys; it says %q", tool, calls, keys, out.Output)
		case calls == 0 && !isUnknown:
			return fmt.Errorf("%s took no effect; it says %q", tool, out.Output)
		}
	}
	return nil
}

// listed writes what matters of events, a line each.
func listed(events []agent.Event) string {
	var out strings.Builder
	for i := range events {
		e := &events[i]
		fmt.Fprintf(&out, "%s %d %s of %s, epoch %d: %q from %d, %s\n", e.Meta.Time.Format(time.TimeOnly+".000"), e.Meta.EventIndex, e.Type,
			e.Meta.Producer, e.Meta.Attempt, e.Text, e.FromIndex, e.Status)
	}
	return out.String()
}

// find returns the texts that a query finds.
func (s *site) find(conn *pgx.Conn, sql string, args ...any) []string {
	s.t.Helper()
	rows, err := conn.Query(s.t.Context(), sql, args...)
	require.NoError(s.t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.t, err)
	return found
}

// verifyStored checks what is stored of all turns: nothing is under way, each has one result, and each stream is contiguous with one end.
func (s *site) verifyStored() {
	s.t.Helper()
	conn := s.connect()
	for what, sql := range map[string]string{
		"turns that have not ended": "SELECT turn_id FROM turns WHERE state IN ('queued', 'running')",
		"turns without one result":  "SELECT t.turn_id FROM turns t LEFT JOIN agent_results r USING (turn_id) GROUP BY 1 HAVING count(r.turn_id) <> 1",
		"streams with holes": "SELECT e.stream_id FROM events e JOIN streams s USING (stream_id) WHERE s.lost_from IS NULL GROUP BY 1 " +
			"HAVING sum(coalesce(cardinality(e.tokens) / 2, 1)) <> max(e.event_index)",
		"streams without one end": "SELECT stream_id FROM events GROUP BY 1 HAVING count(*) FILTER (WHERE terminal) <> 1 " +
			"OR max(event_index) FILTER (WHERE terminal) <> max(event_index)",
		"sessions that are held": "SELECT session_id FROM sessions WHERE holder IS NOT NULL",
	} {
		require.Empty(s.t, s.find(conn, sql), what)
	}
}

// verifyOrder checks that the errands are all the turns there are, each session's in the order in which they were accepted.
func (e *errands) verifyOrder() {
	e.t.Helper()
	conn := e.connect()
	require.Len(e.t, e.find(conn, "SELECT turn_id FROM turns"), e.total(), "every request became one turn")
	orders := map[string]string{
		"accepted": "SELECT turn_id FROM turns WHERE session_id = $1 ORDER BY seq",
		"said":     "SELECT turn_id FROM messages WHERE session_id = $1 AND role = 'user' ORDER BY position",
	}
	if !e.jumps {
		orders["ended"] = "SELECT turn_id FROM turns WHERE session_id = $1 ORDER BY finished_at"
	}
	for _, session := range e.sessions {
		var want []string
		for _, next := range session {
			want = append(want, string(next.receipt.TurnID))
		}
		for what, sql := range orders {
			require.Equal(e.t, want, e.find(conn, sql, string(session[0].session)), "the order in which turns of %s were %s", session[0].session, what)
		}
	}
}

// String says how long turns took, and what the trouble cost them.
func (e *errands) String() string {
	var times []time.Duration
	resets, unknown := 0, 0
	for next := range e.all() {
		times = append(times, next.took)
		resets += count(next.events, agent.EventReset)
		n := len(next.events)
		if n > 0 && next.events[n-1].Result != nil && strings.HasSuffix(next.events[n-1].Result.Output, "unknown") {
			unknown++
		}
	}
	slices.Sort(times)
	return fmt.Sprintf("%d turns, median %s, 95 %% within %s, longest %s; %d resets, %d outcomes unknown",
		len(times), times[len(times)/2].Round(time.Millisecond), times[len(times)*95/100].Round(time.Millisecond),
		times[len(times)-1].Round(time.Millisecond), resets, unknown)
}
