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

// Kinds of spans with derived ids. A change of these texts changes the ids of turns that are running.
const (
	kindTrace    = "trace"
	kindTurn     = "turn"
	kindRequest  = "request"
	kindTool     = "tool"
	kindDelegate = "delegate"
	kindApproval = "approval"
)

// digest returns the hash of the key of a span. Each part comes after its length.
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
		b = binary.BigEndian.AppendUint64(b, uint64(n)) //nolint:gosec // only hashed
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

// deriveTraceID returns the trace id of a turn without a caller's trace. Samplers use its last eight bytes, which are distributed like random ones.
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
	trace trace.TraceID // for a span without a parent
	span  trace.SpanID
}

type spanIDsKey struct{}

// withSpanIDs returns a context for one call of Start. The span that is started with it gets these ids.
func withSpanIDs(ctx context.Context, ids spanIDs) context.Context {
	return context.WithValue(ctx, spanIDsKey{}, ids)
}

// idGenerator generates the ids of withSpanIDs, or random ones.
type idGenerator struct{}

var _ sdktrace.IDGenerator = idGenerator{}

// NewIDs implements [sdktrace.IDGenerator].
func (g idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	ids, _ := ctx.Value(spanIDsKey{}).(spanIDs)
	for !ids.trace.IsValid() {
		binary.NativeEndian.PutUint64(ids.trace[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(ids.trace[8:], rand.Uint64())
	}
	return ids.trace, g.NewSpanID(ctx, ids.trace)
}

// NewSpanID implements [sdktrace.IDGenerator].
func (idGenerator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	ids, _ := ctx.Value(spanIDsKey{}).(spanIDs)
	for !ids.span.IsValid() {
		binary.NativeEndian.PutUint64(ids.span[:], rand.Uint64())
	}
	return ids.span
}
