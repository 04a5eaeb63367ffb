package traces

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnstone-run/turnstone/agent"
)

// The kinds of spans whose ids are derived. They are part of the hash: two deployments that work on one turn must agree on them.
const (
	kindTrace    = "trace"
	kindTurn     = "turn"
	kindRequest  = "request"
	kindTool     = "tool"
	kindDelegate = "delegate"
	kindApproval = "approval"
)

// digest hashes what a span is. Parts are told apart by their lengths.
func digest(kind string, numbers []int64, parts ...string) [sha256.Size]byte {
	b := make([]byte, 0, 256)
	add := func(s string) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s))) //nolint:gosec // an id or a name
		b = append(b, s...)
	}
	add("turnstone/" + kind)
	for _, p := range parts {
		add(p)
	}
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // for a hash
	}
	return sha256.Sum256(b)
}

func derivedSpan(kind string, numbers []int64, parts ...string) (id trace.SpanID) {
	sum := digest(kind, numbers, parts...)
	copy(id[:], sum[:])
	if !id.IsValid() {
		id[7] = 1
	}
	return id
}

// derivedTrace is the trace of a turn that nobody else's trace began. Its last eight bytes are as good as random: samplers look at them.
func derivedTrace(turn agent.TurnID) (id trace.TraceID) {
	sum := digest(kindTrace, nil, string(turn))
	copy(id[:], sum[:])
	if !id.IsValid() {
		id[15] = 1
	}
	return id
}

func turnSpan(turn agent.TurnID) trace.SpanID { return derivedSpan(kindTurn, nil, string(turn)) }

func delegateSpan(child agent.TurnID) trace.SpanID {
	return derivedSpan(kindDelegate, nil, string(child))
}

// wanted are the ids that the next span is to have.
type wanted struct {
	trace trace.TraceID // of a span without parent
	span  trace.SpanID
}

type wantedKey struct{}

// wanting is a context for one call of Start alone: whatever else is started in it would have the same id.
func wanting(ctx context.Context, w wanted) context.Context {
	return context.WithValue(ctx, wantedKey{}, w)
}

// generator gives a span the ids that its context wants, and random ones to others.
type generator struct{}

var _ sdktrace.IDGenerator = generator{}

// NewIDs implements [sdktrace.IDGenerator].
func (g generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	w, _ := ctx.Value(wantedKey{}).(wanted)
	for !w.trace.IsValid() {
		binary.NativeEndian.PutUint64(w.trace[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(w.trace[8:], rand.Uint64())
	}
	return w.trace, g.NewSpanID(ctx, w.trace)
}

// NewSpanID implements [sdktrace.IDGenerator].
func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	w, _ := ctx.Value(wantedKey{}).(wanted)
	for !w.span.IsValid() {
		binary.NativeEndian.PutUint64(w.span[:], rand.Uint64())
	}
	return w.span
}
