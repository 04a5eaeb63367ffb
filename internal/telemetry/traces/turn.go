package traces

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// lineage is where a turn stands: what asked for it, if anybody's trace did, and its own span, which need not exist yet.
type lineage struct {
	above trace.SpanContext // invalid: the turn began the trace
	self  trace.SpanContext
}

// lineageOf reads the trace that asked for the turn. Where there is none the trace is derived from the turn's id, and sampled by it, so
// that every process decides alike.
func (t *Tracing) lineageOf(o *agent.Observed) lineage {
	above := read(o.Trace)
	c := trace.SpanContextConfig{TraceID: above.TraceID(), SpanID: turnSpan(o.TurnID), TraceFlags: above.TraceFlags() & trace.FlagsSampled, Remote: true}
	if !above.IsValid() {
		c.TraceID = derivedTrace(o.TurnID)
		if t.samples(c.TraceID) {
			c.TraceFlags = trace.FlagsSampled
		}
	}
	return lineage{above: above, self: trace.NewSpanContext(c)}
}

func (t *Tracing) samples(id trace.TraceID) bool {
	return t.sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: context.Background(), TraceID: id}).Decision == sdktrace.RecordAndSample
}

// scope is what a context knows of the turn that is worked on in it.
type scope struct {
	turn    agent.TurnID
	basics  []attribute.KeyValue
	arrived trace.SpanContext // the span that the work came in, a caller's
	outer   trace.SpanID      // the span of the work itself

	mu   sync.Mutex
	seen map[trace.SpanID]int // derived ids that were used, and how often
}

// maxSeen bounds the ids that a scope remembers. More spans than that get random ones.
const maxSeen = 4096

type scopeKey struct{}

func scopeOf(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// within is a context in the turn's own span, unless ctx is in one of its spans already.
func (t *Tracing) within(ctx context.Context, o *agent.Observed) (context.Context, *scope) {
	if s := scopeOf(ctx); s != nil && s.turn == o.TurnID {
		return ctx, s
	}
	s := &scope{turn: o.TurnID, arrived: trace.SpanContextFromContext(ctx)}
	self := t.lineageOf(o).self
	if self.IsSampled() {
		s.basics = t.basics(o)
	}
	ctx = context.WithValue(ctx, scopeKey{}, s)
	return trace.ContextWithRemoteSpanContext(ctx, self), s
}

// distinct is the id of a span that is made for the n-th time: one request of a middleware is as much like the next as the key can tell.
func (s *scope) distinct(kind string, numbers []int64, parts ...string) trace.SpanID {
	id := derivedSpan(kind, numbers, parts...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[trace.SpanID]int{}
	}
	if len(s.seen) >= maxSeen {
		return trace.SpanID{}
	}
	n := s.seen[id]
	s.seen[id]++
	if n > 0 {
		return derivedSpan(kind, append(numbers, int64(n)), parts...)
	}
	return id
}

// start begins a span of the turn that ctx is in; its end is the caller's.
func (t *Tracing) start(
	ctx context.Context, name string, kind trace.SpanKind, id trace.SpanID, began time.Time, attributes ...[]attribute.KeyValue,
) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(kind)}
	if !began.IsZero() {
		options = append(options, trace.WithTimestamp(began))
	}
	for _, a := range attributes {
		options = append(options, trace.WithAttributes(a...))
	}
	_, span := t.tracer.Start(wanting(ctx, wanted{span: id}), clip.Bytes(name, maxTag), options...) //nolint:spancheck // the caller's to end
	return trace.ContextWithSpan(ctx, span), span                                                   //nolint:spancheck // as above
}

// Carry implements [agent.Observer].
func (t *Tracing) Carry(ctx context.Context) string {
	sc := trace.SpanContextFromContext(ctx)
	if s := scopeOf(ctx); s != nil && s.outer == sc.SpanID() {
		sc = s.arrived // what asked for the turn is above the activity that records it
	}
	return written(sc)
}

// Delegate implements [agent.Observer].
func (t *Tracing) Delegate(_ context.Context, o *agent.Observed, child agent.TurnID) string {
	if t.shut == nil {
		return o.Trace
	}
	return written(t.lineageOf(o).self.WithSpanID(delegateSpan(child)))
}

// Work implements [agent.Observer].
func (t *Tracing) Work(ctx context.Context, w agent.Work) (context.Context, func(error)) {
	if t.shut == nil || w.Turn == nil {
		return ctx, func(error) {} // work that is no turn's, such as upkeep, would be traces of one span
	}
	ctx, s := t.within(ctx, w.Turn)
	var l list
	if trace.SpanContextFromContext(ctx).IsSampled() {
		l = make(list, 0, 5)
		l.text(keyActivity, w.Name)
		l.number(keyAttempt, int64(w.Attempt))
		l.number(keyStep, int64(w.Step))
		l.text(keyWorkflow, w.Turn.WorkflowID)
		l.text(keyLangfuseType, typeSpan)
	}
	ctx, span := t.start(ctx, w.Name, trace.SpanKindInternal, trace.SpanID{}, w.Started, s.basics, l)
	if !s.outer.IsValid() {
		s.outer = span.SpanContext().SpanID()
	}
	return ctx, func(err error) {
		t.fail(span, err)
		span.End()
	}
}

// Ended implements [agent.Observer].
func (t *Tracing) Ended(ctx context.Context, e agent.TurnEnded) {
	if t.shut == nil || e.Turn == nil || e.Output == nil {
		return
	}
	line := t.lineageOf(e.Turn)
	if !line.self.IsSampled() {
		return
	}
	end := e.Ended
	if end.IsZero() {
		end = time.Now()
	}
	began := e.Turn.Since
	if began.IsZero() {
		began = end.Add(-time.Duration(e.Output.ExecutionTimeMS) * time.Millisecond)
	}
	// What ctx is in may be of another turn, or of the door that cancelled this one.
	ctx = context.WithoutCancel(ctx)
	in := wanting(trace.ContextWithRemoteSpanContext(ctx, line.above), wanted{trace: line.self.TraceID(), span: line.self.SpanID()})
	_, span := t.tracer.Start(in, clip.Bytes("invoke_agent "+e.Turn.Agent, maxTag),
		trace.WithSpanKind(trace.SpanKindInternal), trace.WithTimestamp(began), trace.WithAttributes(t.basics(e.Turn)...))
	if span.IsRecording() {
		span.SetAttributes(t.ending(&e, recordOf(ctx, &e))...)
		if f := e.Output.Error; f != nil && e.Output.Status != agent.TurnCompleted {
			t.failed(span, f.Type, f.Message)
		} else if e.Output.Status == agent.TurnFailed {
			t.failed(span, string(e.Output.StopReason), "")
		}
	}
	span.End(trace.WithTimestamp(latest(began, end)))
}

func latest(a, b time.Time) time.Time {
	if b.Before(a) {
		return a
	}
	return b
}

// recordTime bounds the question for a turn's record.
const recordTime = 2 * time.Second

// recordOf asks for what was asked and how it was routed. A store that does not answer costs the span these attributes.
func recordOf(ctx context.Context, e *agent.TurnEnded) agent.TurnRecord {
	if e.Record == nil {
		return agent.TurnRecord{}
	}
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	r, err := e.Record(ctx)
	if err != nil {
		return agent.TurnRecord{}
	}
	return r
}

// ending is what is known of a turn once it is over.
func (t *Tracing) ending(e *agent.TurnEnded, record agent.TurnRecord) []attribute.KeyValue {
	out := e.Output
	l := make(list, 0, 32)
	l.text(keyOperation, operationAgent)
	l.text(keyWorkflow, e.Turn.WorkflowID)
	l.text(keyStatus, string(out.Status))
	l.text(keyStopReason, string(out.StopReason))
	l.text(keyModel, out.Model)
	l.number(keyToolCalls, int64(len(out.ToolCalls)))
	l.text(keyResult, out.ResultRef)
	// Not gen_ai.usage.*: who adds those up would count every request twice.
	l.number(keyTurnInput, out.Usage.InputTokens)
	l.number(keyTurnOutput, out.Usage.OutputTokens)
	l = append(l, keyCost.Float64(out.Usage.CostUSD))
	l.text(keyLangfuseType, typeAgent)
	about := keyLangfuseNote
	if e.Turn.Parent == "" {
		about = keyLangfuseMetadata
		l.flag(keyLangfuseRoot, true)
	}
	if r := record.Route; r != nil {
		why := string(r.Reason)
		if r.Rule != "" {
			why = fmt.Sprintf("%s %s/%s", r.Reason, r.Table, r.Rule)
		}
		l.text(keyRoute, string(r.Reason))
		l.text(keyRule, r.Rule)
		l.flag(keyMismatch, r.Mismatch)
		l.text(attribute.Key(about+"route"), why)
	}
	l.text(attribute.Key(about+"stop_reason"), string(out.StopReason))
	if !t.content.on() {
		return l
	}
	l.content(keyInput, t.content.messages(record.Input))
	l.content(keyOutput, t.content.reply(out.Blocks, ""))
	in, said := t.content.text(lastText(record.Input)), t.content.text(out.Output)
	if t.langfuse {
		l.content(keyLangfuseInput, in)
		l.content(keyLangfuseOutput, said)
		if e.Turn.Parent == "" {
			l.content(keyLangfuseTraceInput, in)
			l.content(keyLangfuseTraceOutput, said)
		}
	}
	return l
}

// lastText is what was asked, in words.
func lastText(messages []agent.Message) string {
	for _, m := range slices.Backward(messages) {
		if text := agent.Normalize(m.Blocks); text != "" {
			return text
		}
	}
	return ""
}
