package codec_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/turnstone-run/turnstone/internal/codec"
)

// frontend is a Temporal server that keeps the requests to start workflows.
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer

	mu     sync.Mutex
	starts []*workflowservice.StartWorkflowExecutionRequest
}

func (*frontend) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{Capabilities: &workflowservice.GetSystemInfoResponse_Capabilities{}}, nil
}

func (f *frontend) StartWorkflowExecution(
	_ context.Context, r *workflowservice.StartWorkflowExecutionRequest,
) (*workflowservice.StartWorkflowExecutionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts = append(f.starts, r)
	return &workflowservice.StartWorkflowExecutionResponse{RunId: "run", Started: true}, nil
}

// start starts a workflow with a codec and returns the request that was sent.
func start(t *testing.T, c *codec.Codec, o client.StartWorkflowOptions, arg any) *workflowservice.StartWorkflowExecutionRequest {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &frontend{}
	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, f)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		require.NoError(t, <-served)
	}()
	temporal, err := client.DialContext(t.Context(), c.Options(client.Options{HostPort: listener.Addr().String(), Namespace: "mine", Logger: silent()}))
	require.NoError(t, err)
	defer temporal.Close()
	o.TaskQueue = "q"
	_, err = temporal.ExecuteWorkflow(t.Context(), o, greeting, arg)
	require.NoError(t, err)
	require.Len(t, f.starts, 1)
	require.Equal(t, "mine", f.starts[0].GetNamespace())
	return f.starts[0]
}

func TestClient(t *testing.T) {
	text, _ := key(t, "one")
	keys := ring(t, text)
	o := client.StartWorkflowOptions{ID: "w", StaticSummary: "asks for Ann", Memo: map[string]any{"note": "Ann"}}
	sealed := open(t, codec.Config{Keys: keys})
	sent := start(t, sealed, o, "Ann")
	wire, err := proto.Marshal(sent)
	require.NoError(t, err)
	require.NotContains(t, string(wire), "Ann", "the argument, the memo and the summary are encrypted")
	for _, p := range []*commonpb.Payload{
		sent.GetInput().GetPayloads()[0], sent.GetMemo().GetFields()["note"], sent.GetUserMetadata().GetSummary(),
	} {
		var got string
		require.NoError(t, sealed.Data().FromPayload(p, &got))
		require.Contains(t, got, "Ann")
	}

	// A large payload is replaced by a reference, and the stored payload is encrypted.
	s := newObjects()
	both := open(t, codec.Config{Keys: keys, Objects: s})
	sent = start(t, both, o, strings.Repeat("Ann", 200_000))
	require.Less(t, proto.Size(sent), 2000)
	ref := sent.GetInput().GetPayloads()[0]
	require.Len(t, s.keys(), 1)
	require.NotContains(t, string(s.objects[s.keys()[0]]), "AnnAnn")
	answer, err := both.DownloadJSON(t.Context(), body(t, ref))
	require.NoError(t, err)
	require.Greater(t, len(read(t, answer)[0].GetData()), 600_000, "the endpoint reads what the SDK wrote")

	plain := start(t, open(t, codec.Config{}), o, "Ann")
	require.JSONEq(t, `"Ann"`, string(plain.GetInput().GetPayloads()[0].GetData()), "without a codec, payloads are not changed")
}
