package tracetest

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // for compressed exports
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// Span is a received span.
type Span struct {
	Trace, ID, Parent string // hex; Parent is empty for a root
	Name              string
	Kind              otlp.Span_SpanKind
	Start, End        time.Time
	Attributes        map[string]any // string, int64, float64, bool, []any
	Resource          map[string]any
	Scope             string
	Error             bool
	Message           string // of the status
	Events            []Event
}

// Event is an event of a span.
type Event struct {
	Name       string
	Attributes map[string]any
}

// Request is an export over HTTP.
type Request struct {
	Path   string
	Header http.Header
	Bytes  int // uncompressed
	Spans  int
}

// Receiver is an OTLP collector that keeps all spans.
type Receiver struct {
	collector.UnimplementedTraceServiceServer

	HTTP string // URL for http/protobuf
	GRPC string // URL for grpc

	mu       sync.Mutex
	spans    []Span
	requests []Request
	metadata []metadata.MD
	answer   func() int // HTTP status; nil: 200
}

// Receive starts a receiver for as long as the test runs.
func Receive(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{}
	web := httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(web.Close)
	r.HTTP = web.URL

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	r.GRPC = "http://" + listener.Addr().String()
	return r
}

// Answer sets a function that returns the status of HTTP responses. It may block. Spans are kept only if the status is 200.
func (r *Receiver) Answer(f func() int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = f
}

func (r *Receiver) serve(w http.ResponseWriter, req *http.Request) {
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	b, err := io.ReadAll(body)
	var in collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(b, &in)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	answer := r.answer
	r.mu.Unlock()
	status := http.StatusOK
	if answer != nil {
		status = answer()
	}
	spans := decode(in.GetResourceSpans())
	r.mu.Lock()
	r.requests = append(r.requests, Request{Path: req.URL.Path, Header: req.Header, Bytes: len(b), Spans: len(spans)})
	if status == http.StatusOK {
		r.spans = append(r.spans, spans...)
	}
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(status)
}

// Export implements the gRPC service.
func (r *Receiver) Export(ctx context.Context, in *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.metadata = append(r.metadata, md)
	r.spans = append(r.spans, decode(in.GetResourceSpans())...)
	return &collector.ExportTraceServiceResponse{}, nil
}

// Spans returns the spans in the order of arrival.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// Requests returns the exports over HTTP.
func (r *Receiver) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Metadata returns the metadata of the exports over gRPC.
func (r *Receiver) Metadata() []metadata.MD {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.metadata)
}

// Await waits, at most for 30 s, until isComplete accepts the received spans.
func (r *Receiver) Await(t testing.TB, isComplete func([]Span) bool) []Span {
	t.Helper()
	require.Eventually(t, func() bool { return isComplete(r.Spans()) }, 30*time.Second, 20*time.Millisecond, "the spans did not arrive")
	return r.Spans()
}

// AwaitTrace waits for the span of a turn and returns all spans of its trace.
func (r *Receiver) AwaitTrace(t testing.TB, turn string) []Span {
	t.Helper()
	var id string
	r.Await(t, func(spans []Span) bool {
		for i := range spans {
			if spans[i].Attributes["turnstone.turn_id"] == turn && spans[i].Attributes["gen_ai.operation.name"] == "invoke_agent" {
				id = spans[i].Trace
				return true
			}
		}
		return false
	})
	return InTrace(r.Spans(), id)
}

func decode(all []*otlp.ResourceSpans) []Span {
	var out []Span
	for _, rs := range all {
		resource := values(rs.GetResource().GetAttributes())
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				span := Span{
					Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					Name: s.GetName(), Kind: s.GetKind(), Start: nanoTime(s.GetStartTimeUnixNano()), End: nanoTime(s.GetEndTimeUnixNano()),
					Attributes: values(s.GetAttributes()), Resource: resource, Scope: ss.GetScope().GetName(),
					Error: s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR, Message: s.GetStatus().GetMessage(),
				}
				for _, e := range s.GetEvents() {
					span.Events = append(span.Events, Event{Name: e.GetName(), Attributes: values(e.GetAttributes())})
				}
				out = append(out, span)
			}
		}
	}
	return out
}

func nanoTime(nano uint64) time.Time { return time.Unix(0, int64(nano)).UTC() }

func values(all []*common.KeyValue) map[string]any {
	out := map[string]any{}
	for _, kv := range all {
		out[kv.GetKey()] = value(kv.GetValue())
	}
	return out
}

func value(v *common.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return v.IntValue
	case *common.AnyValue_DoubleValue:
		return v.DoubleValue
	case *common.AnyValue_BoolValue:
		return v.BoolValue
	case *common.AnyValue_ArrayValue:
		var list []any
		for _, e := range v.ArrayValue.GetValues() {
			list = append(list, value(e))
		}
		return list
	default:
		return nil
	}
}
