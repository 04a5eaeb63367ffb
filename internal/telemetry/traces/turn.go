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

// turnTrace is the position of a turn in its trace.
type turnTrace struct {
	parent trace.SpanContext // invalid: the turn is the root
	self   trace.SpanContext // of the turn, whose span may not exist yet
}

// turnTrace returns the position of a turn in the trace of its caller. Without a caller's trace, the id of the turn determines the trace and whether it is
// sampled, so that all processes use the same.
func (t *Tracing) turnTrace(o *agent.Observed) turnTrace {
	parent := parseTraceparent(o.Trace)
	c := trace.SpanContextConfig{TraceID: parent.TraceID(), SpanID: turnSpanID(o.TurnID), TraceFlags: parent.TraceFlags() & trace.FlagsSampled, Remote: true}
	if !parent.IsValid() {
		c.TraceID = deriveTraceID(o.TurnID)
		if t.isSampled(c.TraceID) {
			c.TraceFlags = trace.FlagsSampled
		}
	}
	return turnTrace{parent: parent, self: trace.NewSpanContext(c)}
}

func (t *Tracing) isSampled(id trace.TraceID) bool {
	return t.sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: context.Background(), TraceID: id}).Decision == sdktrace.RecordAndSample
}

// turnScope is the turn of a context.
type turnScope struct {
	turn       agent.TurnID
	attributes []attribute.KeyValue
	incoming   trace.SpanContext // of the context before it was in the turn: a caller's span
	work       trace.SpanID      // of the activity

	mu   sync.Mutex
	uses map[trace.SpanID]int // how often each derived id was used
}

// maxDerivedIDs bounds the derived ids in a turnScope. Further spans get random ids.
const maxDerivedIDs = 4096

type turnScopeKey struct{}

// scopeOf returns the scope of a context, nil if it is not in a turn.
func scopeOf(ctx context.Context) *turnScope {
	s, _ := ctx.Value(turnScopeKey{}).(*turnScope)
	return s
}

// enterTurn returns a context within the span of a turn, or ctx if it is already within a span of the turn.
func (t *Tracing) enterTurn(ctx context.Context, o *agent.Observed) (context.Context, *turnScope) {
	if s := scopeOf(ctx); s != nil && s.turn == o.TurnID {
		return ctx, s
	}
	s := &turnScope{turn: o.TurnID, incoming: trace.SpanContextFromContext(ctx)}
	self := t.turnTrace(o).self
	if self.IsSampled() {
		s.attributes = t.turnAttributes(o)
	}
	ctx = context.WithValue(ctx, turnScopeKey{}, s)
	return trace.ContextWithRemoteSpanContext(ctx, self), s
}

// uniqueSpanID derives a span id from a key. It returns another id each time, because a middleware may make several requests with the same key.
func (s *turnScope) uniqueSpanID(kind string, numbers []int64, parts ...string) trace.SpanID {
	id := deriveSpanID(kind, numbers, parts...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uses == nil {
		s.uses = map[trace.SpanID]int{}
	}
	if len(s.uses) >= maxDerivedIDs {
		return trace.SpanID{}
	}
	n := s.uses[id]
	s.uses[id]++
	if n > 0 {
		return deriveSpanID(kind, append(numbers, int64(n)), parts...)
	}
	return id
}

// startSpan starts a span in the turn of ctx. The caller has to end it.
func (t *Tracing) startSpan(
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
	if s := scopeOf(ctx); s != nil && s.work == sc.SpanID() {
		sc = s.incoming // the trace of the caller, and not of the activity that records the turn
	}
	return formatTraceparent(sc)
}

// Delegate implements [agent.Observer].
func (t *Tracing) Delegate(_ context.Context, o *agent.Observed, child agent.TurnID) string {
	if t.shutdown == nil {
		return o.Trace
	}
	return formatTraceparent(t.turnTrace(o).self.WithSpanID(delegateSpanID(child)))
}

// Work implements [agent.Observer].
func (t *Tracing) Work(ctx context.Context, w agent.Work) (context.Context, func(error)) {
	if t.shutdown == nil || w.Turn == nil {
		return ctx, func(error) {} // work of no turn, such as maintenance, would be a trace of one span
	}
	ctx, s := t.enterTurn(ctx, w.Turn)
	var l attributeList
	if trace.SpanContextFromContext(ctx).IsSampled() {
		l = make(attributeList, 0, 5)
		l.addText(keyActivity, w.Name)
		l.addNumber(keyAttempt, int64(w.Attempt))
		l.addNumber(keyStep, int64(w.Step))
		l.addText(keyWorkflow, w.Turn.WorkflowID)
		l.addText(keyLangfuseType, typeSpan)
	}
	ctx, span := t.startSpan(ctx, w.Name, trace.SpanKindInternal, trace.SpanID{}, w.Started, s.attributes, l)
	if !s.work.IsValid() {
		s.work = span.SpanContext().SpanID()
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
	place := t.turnTrace(e.Turn)
	if !place.self.IsSampled() {
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
	// The span of ctx may belong to another turn, or to the request that cancelled this one.
	ctx = context.WithoutCancel(ctx)
	in := withSpanIDs(trace.ContextWithRemoteSpanContext(ctx, place.parent), spanIDs{trace: place.self.TraceID(), span: place.self.SpanID()})
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

// latest returns the later of two times.
func latest(a, b time.Time) time.Time {
	if b.Before(a) {
		return a
	}
	return b
}

// recordTimeout bounds reading the record of a turn.
const recordTimeout = 2 * time.Second

// readRecord returns the record of a turn, an empty one if the store does not answer.
func readRecord(ctx context.Context, e *agent.TurnEnded) agent.TurnRecord {
	if e.Record == nil {
		return agent.TurnRecord{}
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	r, err := e.Record(ctx)
	if err != nil {
		return agent.TurnRecord{}
	}
	return r
}

// endAttributes returns the attributes of a turn that has ended.
func (t *Tracing) endAttributes(e *agent.TurnEnded, record agent.TurnRecord) []attribute.KeyValue {
	out := e.Output
	l := make(attributeList, 0, 32)
	l.addText(keyOperation, operationAgent)
	l.addText(keyWorkflow, e.Turn.WorkflowID)
	l.addText(keyStatus, string(out.Status))
	l.addText(keyStopReason, string(out.StopReason))
	l.addText(keyModel, out.Model)
	l.addNumber(keyToolCalls, int64(len(out.ToolCalls)))
	l.addText(keyResult, out.ResultRef)
	// With gen_ai.usage.* a sum would count every request twice.
	l.addNumber(keyTurnInput, out.Usage.InputTokens)
	l.addNumber(keyTurnOutput, out.Usage.OutputTokens)
	l = append(l, costAttributes(&out.Usage)...)
	l.addText(keyLangfuseType, typeAgent)
	metadata := keyLangfuseNote
	if e.Turn.Parent == "" {
		metadata = keyLangfuseMetadata
		l.addFlag(keyLangfuseRoot, true)
	}
	if r := record.Route; r != nil {
		reason := string(r.Reason)
		if r.Rule != "" {
			reason = fmt.Sprintf("%s %s/%s", r.Reason, r.Table, r.Rule)
		}
		l.addText(keyRoute, string(r.Reason))
		l.addText(keyRule, r.Rule)
		l.addFlag(keyMismatch, r.Mismatch)
		l.addText(attribute.Key(metadata+"route"), reason)
	}
	l.addText(attribute.Key(metadata+"stop_reason"), string(out.StopReason))
	t.addTurnContent(&l, e, record.Input)
	return l
}

// addTurnContent adds the input and the output of a turn that has ended.
func (t *Tracing) addTurnContent(l *attributeList, e *agent.TurnEnded, input []agent.Message) {
	if !t.content.isOn() {
		return
	}
	l.addContent(keyInput, t.content.messages(input))
	l.addContent(keyOutput, t.content.reply(e.Output.Blocks, ""))
	if !t.langfuse {
		return
	}
	lastInput, output := t.content.text(lastText(input)), t.content.text(e.Output.Output)
	l.addContent(keyLangfuseInput, lastInput)
	l.addContent(keyLangfuseOutput, output)
	if e.Turn.Parent == "" {
		l.addContent(keyLangfuseTraceInput, lastInput)
		l.addContent(keyLangfuseTraceOutput, output)
	}
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
