package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// turnSeconds is the most that a turn of a scenario may take unless the scenario says otherwise; it is not waited for.
const turnSeconds = 30

// run is a scenario with one driver, in a tenant of its own.
type run struct {
	tenant   string
	mode     agent.Mode
	client   *client.Client
	provider *scripted
	turns    []*played
}

// played is what came of a turn.
type played struct {
	form     *turnForm
	request  agent.TurnRequest
	receipt  agent.Receipt
	refusal  error // of the request
	stream   *watched
	asked    []asked
	pending  [][]agent.Approval // what the door said was pending, before each decision
	aside    []*aside
	stopTook time.Duration // from the cancel to the end
	queued   bool          // it may have waited for its session
}

// aside is a turn that began beside another, by a message.
type aside struct {
	*played

	want *expectation
}

// String shows a run as far as it came.
func (r *run) String() string {
	var out strings.Builder
	for i, p := range r.turns {
		fmt.Fprintf(&out, "turn %d %s: ", i+1, p.receipt.TurnID)
		if p.stream != nil {
			fmt.Fprintf(&out, "%q", compact(p.stream.all()))
		}
	}
	return out.String()
}

// play runs the turns of a scenario one after the other. Its errors are faults of the scenario's course; what came of it is checked later.
func (s *stage) play(ctx context.Context, sc *scenario, mode agent.Mode) (*run, error) {
	r := &run{tenant: sc.Name + "-" + string(mode), mode: mode}
	providers := map[string]string{}
	for name, fields := range sc.Profiles {
		providers[name], _ = fields["provider"].(string)
	}
	providers[mainProfile], _ = sc.Profile["provider"].(string)
	r.provider = newScripted(providers)
	var err error
	if r.client, err = client.New(client.Config{Server: "http://" + s.HTTPAddr(), Tenant: r.tenant}); err != nil {
		return r, err
	}
	files, err := sc.manifest(r)
	if err != nil {
		return r, err
	}
	if _, err := r.client.Apply(ctx, agent.ApplyRequest{Files: files, By: "scenario"}); err != nil {
		return r, fmt.Errorf("apply: %w", err)
	}
	for _, k := range sc.Knowledge {
		file := client.File{Collection: k.Collection, ID: k.ID, Title: k.Title, Source: k.Source, MIMEType: k.MIME, Body: bytes.NewReader([]byte(k.Text))}
		if _, err := r.client.AddKnowledge(ctx, file); err != nil {
			return r, fmt.Errorf("add knowledge %s: %w", k.ID, err)
		}
	}
	for i := range sc.Before {
		if err := r.turn(ctx, &sc.Before[i]); err != nil {
			return r, fmt.Errorf("before[%d]: %w", i, err)
		}
	}
	return r, r.turn(ctx, &sc.turnForm)
}

// turn runs one turn to its end, and those beside it.
func (r *run) turn(ctx context.Context, form *turnForm) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(cmp.Or(form.Seconds, turnSeconds))*time.Second)
	defer cancel()
	acted := make(chan struct{})
	first := r.provider.load(form, acted)
	p := &played{form: form, request: form.request(r)}
	r.turns = append(r.turns, p)
	if p.receipt, p.refusal = r.client.Start(ctx, p.request); p.refusal != nil {
		return nil // it may be meant to be
	}
	p.stream = watch(ctx, r.client, p.receipt.TurnID)
	err := r.act(ctx, p, first)
	close(acted)
	if err == nil {
		err = p.stream.end(ctx)
	}
	for _, a := range p.aside {
		if err == nil && a.stream != nil {
			err = a.stream.end(ctx)
		}
	}
	p.asked = r.provider.since(first)
	return err
}

// act does what people do, in order.
func (r *run) act(ctx context.Context, p *played, first int) error {
	for i := range p.form.Act {
		d := &p.form.Act[i]
		if err := r.awaitMoment(ctx, p, d, first); err != nil {
			return fmt.Errorf("act[%d] on %q: %w", i, d.On, err)
		}
		err := r.perform(ctx, p, d)
		switch {
		case d.Refused == "" && d.Code == "":
			if err != nil {
				return fmt.Errorf("act[%d]: %w", i, err)
			}
		case err == nil:
			return fmt.Errorf("act[%d] was accepted, want a refusal with %q", i, d.Refused)
		case !strings.Contains(err.Error(), d.Refused):
			return fmt.Errorf("act[%d] was refused, want %q in the words: %w", i, d.Refused, err)
		case d.Code != "" && agent.CodeOf(err) != d.Code:
			return fmt.Errorf("act[%d] was refused with code %q, want %q: %w", i, agent.CodeOf(err), d.Code, err)
		}
	}
	return nil
}

// awaitMoment waits until an action is due.
func (r *run) awaitMoment(ctx context.Context, p *played, d *scriptedAction, first int) error {
	if n, ok := strings.CutPrefix(d.On, "request "); ok {
		number, err := strconv.Atoi(n)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() {
			err := p.stream.end(ctx)
			cancel(fmt.Errorf("the stream ended before, with %q: %w", compact(p.stream.all()), errors.Join(context.Canceled, err)))
		}()
		return r.provider.await(ctx, first+number)
	}
	return p.stream.await(ctx, func(events []agent.Event) bool {
		n, also := 0, d.And == ""
		for i := range events {
			line := eventLine(&events[i])
			if strings.HasPrefix(line, d.On) {
				n++
			}
			also = also || strings.HasPrefix(line, d.And)
		}
		return also && n >= max(d.Nth, 1)
	})
}

func (r *run) perform(ctx context.Context, p *played, d *scriptedAction) error {
	id := p.receipt.TurnID
	switch {
	case d.Decide != nil:
		decision := d.Decide.Decision
		if decision.ApprovalID == "" {
			approval, err := p.stream.approval(d.Decide.Tool, max(d.Decide.Nth, 1))
			if err != nil {
				return err
			}
			decision.ApprovalID = approval.ApprovalID
		}
		decision.By = cmp.Or(decision.By, "ann")
		view, err := r.client.Turn(ctx, id)
		if err != nil {
			return err
		}
		p.pending = append(p.pending, view.Pending)
		return r.client.Decide(ctx, id, decision)
	case d.Cancel != nil:
		asked := time.Now()
		if err := r.client.Cancel(ctx, id, *d.Cancel); err != nil {
			return err
		}
		err := p.stream.end(ctx)
		p.stopTook = time.Since(asked)
		return err
	default:
		return r.message(ctx, p, d.Message)
	}
}

// message sends another message to the session of a turn.
func (r *run) message(ctx context.Context, p *played, m *scriptedMessage) error {
	form := &turnForm{Say: m.Say}
	a := &aside{played: &played{form: form, request: form.request(r), queued: true}, want: &m.Expect}
	a.request.OnBusy, a.request.SessionID = m.OnBusy, p.receipt.SessionID
	var err error
	if a.receipt, err = r.client.Start(ctx, a.request); err != nil {
		return err
	}
	a.stream = watch(ctx, r.client, a.receipt.TurnID)
	p.aside = append(p.aside, a)
	return nil
}

// watched is the stream of a turn as a viewer sees it who is there from the beginning.
type watched struct {
	mu      sync.Mutex
	events  []agent.Event
	err     error
	over    bool
	changed chan struct{} // closed with every event
}

func watch(ctx context.Context, door *client.Client, id agent.TurnID) *watched {
	w := &watched{changed: make(chan struct{})}
	go func() {
		for e, err := range door.Follow(ctx, id, 0) {
			w.add(e, err)
			if err != nil {
				return
			}
		}
		w.finish()
	}()
	return w
}

func (w *watched) add(e agent.Event, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.err, w.over = err, true
	} else {
		w.events = append(w.events, e)
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watched) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watched) all() []agent.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// await waits until the events are as wanted. A stream that ends first is an error.
func (w *watched) await(ctx context.Context, want func([]agent.Event) bool) error {
	for {
		w.mu.Lock()
		done, over, err, changed := want(w.events), w.over, w.err, w.changed
		w.mu.Unlock()
		switch {
		case done:
			return nil
		case err != nil:
			return err
		case over:
			return fmt.Errorf("the stream ended before, with %q", compact(w.all()))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("it did not come to that: %w: %q", ctx.Err(), compact(w.all()))
		}
	}
}

// end waits for the end of the stream.
func (w *watched) end(ctx context.Context) error {
	for {
		w.mu.Lock()
		over, err, changed := w.over, w.err, w.changed
		w.mu.Unlock()
		if over || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the turn did not end: %w: %q", ctx.Err(), compact(w.all()))
		}
	}
}

// approval is the n-th that the stream asked for a tool.
func (w *watched) approval(tool string, n int) (*agent.Approval, error) {
	for _, e := range w.all() {
		if e.Type == agent.EventApprovalRequested && e.ToolName == tool {
			if n--; n == 0 {
				return e.Approval, nil
			}
		}
	}
	return nil, errors.New("the stream did not ask about " + tool)
}
