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

// Kinds of spans with derived ids. They are part of the hash, so all deployments that work on one turn must agree on them.
const (
	kindTrace    = "trace"
	kindTurn     = "turn"
	kindRequest  = "request"
	kindTool     = "tool"
	kindDelegate = "delegate"
	kindApproval = "approval"
)

// digest hashes the key of a span. Each part is preceded by its length.
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

func deriveSpanID(kind string, numbers []int64, parts ...string) (id trace.SpanID) {
	sum := digest(kind, numbers, parts...)
	copy(id[:], sum[:])
	if !id.IsValid() {
		id[7] = 1
	}
	return id
}

// deriveTraceID returns the trace of a turn without a caller's trace. Samplers use its last eight bytes, which are as good as random.
func deriveTraceID(turn agent.TurnID) (id trace.TraceID) {
	sum := digest(kindTrace, nil, string(turn))
	copy(id[:], sum[:])
	if !id.IsValid() {
		id[15] = 1
	}
	return id
}

func turnSpanID(turn agent.TurnID) trace.SpanID { return deriveSpanID(kindTurn, nil, string(turn)) }

func delegateSpanID(child agent.TurnID) trace.SpanID {
	return deriveSpanID(kindDelegate, nil, string(child))
}

// spanIDs are the ids of the next span.
type spanIDs struct {
	trace trace.TraceID // of a span without parent
	span  trace.SpanID
}

type spanIDsKey struct{}

// withSpanIDs returns a context for one call of Start: every span that is started in it gets these ids.
func withSpanIDs(ctx context.Context, ids spanIDs) context.Context {
	return context.WithValue(ctx, spanIDsKey{}, ids)
}

// generator gives a span the ids of [withSpanIDs], or random ones.
type generator struct{}

var _ sdktrace.IDGenerator = generator{}

// NewIDs implements [sdktrace.IDGenerator].
func (g generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	w, _ := ctx.Value(spanIDsKey{}).(spanIDs)
	for !w.trace.IsValid() {
		binary.NativeEndian.PutUint64(w.trace[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(w.trace[8:], rand.Uint64())
	}
	return w.trace, g.NewSpanID(ctx, w.trace)
}

// NewSpanID implements [sdktrace.IDGenerator].
func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	w, _ := ctx.Value(spanIDsKey{}).(spanIDs)
	for !w.span.IsValid() {
		binary.NativeEndian.PutUint64(w.span[:], rand.Uint64())
	}
	return w.span
}
