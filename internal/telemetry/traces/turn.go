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

// lineage is the place of a turn in its trace: the span above it, and its own span, which may not exist yet.
type lineage struct {
	above trace.SpanContext // invalid: the turn is the root
	self  trace.SpanContext
}

// lineageOf reads the trace that asked for the turn. Without one it derives and samples a trace by the turn's id, so that every process
// decides alike.
func (t *Tracing) lineageOf(o *agent.Observed) lineage {
	above := parseTraceparent(o.Trace)
	c := trace.SpanContextConfig{TraceID: above.TraceID(), SpanID: turnSpanID(o.TurnID), TraceFlags: above.TraceFlags() & trace.FlagsSampled, Remote: true}
	if !above.IsValid() {
		c.TraceID = deriveTraceID(o.TurnID)
		if t.isSampled(c.TraceID) {
			c.TraceFlags = trace.FlagsSampled
		}
	}
	return lineage{above: above, self: trace.NewSpanContext(c)}
}

func (t *Tracing) isSampled(id trace.TraceID) bool {
	return t.sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: context.Background(), TraceID: id}).Decision == sdktrace.RecordAndSample
}

// scope is what a context knows of its turn.
type scope struct {
	turn       agent.TurnID
	attributes []attribute.KeyValue
	arrived    trace.SpanContext // the span that the work came in, a caller's
	outer      trace.SpanID      // the span of the work itself

	mu   sync.Mutex
	seen map[trace.SpanID]int // derived ids that were used, and how often
}

// maxSeen bounds the ids that a scope remembers. Further spans get random ids.
const maxSeen = 4096

type scopeKey struct{}

func scopeOf(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// enterTurn returns a context in the turn's span, or ctx if it is already in one of the turn's spans.
func (t *Tracing) enterTurn(ctx context.Context, o *agent.Observed) (context.Context, *scope) {
	if s := scopeOf(ctx); s != nil && s.turn == o.TurnID {
		return ctx, s
	}
	s := &scope{turn: o.TurnID, arrived: trace.SpanContextFromContext(ctx)}
	self := t.lineageOf(o).self
	if self.IsSampled() {
		s.attributes = t.turnAttributes(o)
	}
	ctx = context.WithValue(ctx, scopeKey{}, s)
	return trace.ContextWithRemoteSpanContext(ctx, self), s
}

// uniqueSpanID derives a span id, another one each time for the same key: a middleware may make several requests that look alike.
func (s *scope) uniqueSpanID(kind string, numbers []int64, parts ...string) trace.SpanID {
	id := deriveSpanID(kind, numbers, parts...)
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
		return deriveSpanID(kind, append(numbers, int64(n)), parts...)
	}
	return id
}

// start begins a span of the turn of ctx. The caller ends it.
func (t *Tracing) start(
	ctx context.Context, name string, kind trace.SpanKind, id trace.SpanID, start time.Time, attributes ...[]attribute.KeyValue,
) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(kind)}
	if !start.IsZero() {
		options = append(options, trace.WithTimestamp(start))
	}
	for _, a := range attributes {
		options = append(options, trace.WithAttributes(a...))
	}
	_, span := t.tracer.Start(withSpanIDs(ctx, spanIDs{span: id}), clip.Bytes(name, maxTag), options...) //nolint:spancheck // the caller's to end
	return trace.ContextWithSpan(ctx, span), span                                                        //nolint:spancheck // as above
}

// Carry implements [agent.Observer].
func (t *Tracing) Carry(ctx context.Context) string {
	sc := trace.SpanContextFromContext(ctx)
	if s := scopeOf(ctx); s != nil && s.outer == sc.SpanID() {
		sc = s.arrived // what asked for the turn is above the activity that records it
	}
	return formatTraceparent(sc)
}

// Delegate implements [agent.Observer].
func (t *Tracing) Delegate(_ context.Context, o *agent.Observed, child agent.TurnID) string {
	if t.shutdown == nil {
		return o.Trace
	}
	return formatTraceparent(t.lineageOf(o).self.WithSpanID(delegateSpanID(child)))
}

// Work implements [agent.Observer].
func (t *Tracing) Work(ctx context.Context, w agent.Work) (context.Context, func(error)) {
	if t.shutdown == nil || w.Turn == nil {
		return ctx, func(error) {} // work that is no turn's, such as upkeep, would be traces of one span
	}
	ctx, s := t.enterTurn(ctx, w.Turn)
	var l attributeList
	if trace.SpanContextFromContext(ctx).IsSampled() {
		l = make(attributeList, 0, 5)
		l.text(keyActivity, w.Name)
		l.number(keyAttempt, int64(w.Attempt))
		l.number(keyStep, int64(w.Step))
		l.text(keyWorkflow, w.Turn.WorkflowID)
		l.text(keyLangfuseType, typeSpan)
	}
	ctx, span := t.start(ctx, w.Name, trace.SpanKindInternal, trace.SpanID{}, w.Started, s.attributes, l)
	if !s.outer.IsValid() {
		s.outer = span.SpanContext().SpanID()
	}
	return ctx, func(err error) {
		t.setError(span, err)
		span.End()
	}
}

// Ended implements [agent.Observer].
func (t *Tracing) Ended(ctx context.Context, e agent.TurnEnded) {
	if t.shutdown == nil || e.Turn == nil || e.Output == nil {
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
	start := e.Turn.Since
	if start.IsZero() {
		start = end.Add(-time.Duration(e.Output.ExecutionTimeMS) * time.Millisecond)
	}
	// The span of ctx may belong to another turn, or to the door that cancelled this one.
	ctx = context.WithoutCancel(ctx)
	in := withSpanIDs(trace.ContextWithRemoteSpanContext(ctx, line.above), spanIDs{trace: line.self.TraceID(), span: line.self.SpanID()})
	_, span := t.tracer.Start(in, clip.Bytes("invoke_agent "+e.Turn.Agent, maxTag),
		trace.WithSpanKind(trace.SpanKindInternal), trace.WithTimestamp(start), trace.WithAttributes(t.turnAttributes(e.Turn)...))
	if span.IsRecording() {
		span.SetAttributes(t.endAttributes(&e, readRecord(ctx, &e))...)
		if f := e.Output.Error; f != nil && e.Output.Status != agent.TurnCompleted {
			t.setFailed(span, f.Type, f.Message)
		} else if e.Output.Status == agent.TurnFailed {
			t.setFailed(span, string(e.Output.StopReason), "")
		}
	}
	span.End(trace.WithTimestamp(latest(start, end)))
}

func latest(a, b time.Time) time.Time {
	if b.Before(a) {
		return a
	}
	return b
}

// recordTime bounds reading a turn's record.
const recordTime = 2 * time.Second

// readRecord returns the input and the route of a turn. It is empty if the store does not answer.
func readRecord(ctx context.Context, e *agent.TurnEnded) agent.TurnRecord {
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

// endAttributes returns what is known of a turn once it has ended.
func (t *Tracing) endAttributes(e *agent.TurnEnded, record agent.TurnRecord) []attribute.KeyValue {
	out := e.Output
	l := make(attributeList, 0, 32)
	l.text(keyOperation, operationAgent)
	l.text(keyWorkflow, e.Turn.WorkflowID)
	l.text(keyStatus, string(out.Status))
	l.text(keyStopReason, string(out.StopReason))
	l.text(keyModel, out.Model)
	l.number(keyToolCalls, int64(len(out.ToolCalls)))
	l.text(keyResult, out.ResultRef)
	// Not gen_ai.usage.*: a sum of those would count every request twice.
	l.number(keyTurnInput, out.Usage.InputTokens)
	l.number(keyTurnOutput, out.Usage.OutputTokens)
	l = append(l, costOf(&out.Usage)...)
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
	if !t.content.isOn() {
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

// lastText returns the text of the last message that has some.
func lastText(messages []agent.Message) string {
	for _, m := range slices.Backward(messages) {
		if text := agent.Normalize(m.Blocks); text != "" {
			return text
		}
	}
	return ""
}
