package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

func (d *testGateway) dial() *grpc.ClientConn {
	d.t.Helper()
	conn, err := grpc.NewClient(d.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(d.t, err)
	d.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// errorOf returns the error of a call.
func errorOf[T any](_ T, err error) error { return err }

// receive returns the first message of a stream.
func receive[T any](s grpc.ServerStreamingClient[T], err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return s.Recv()
}

func detail[T any](t *testing.T, err error) T {
	t.Helper()
	for _, d := range status.Convert(err).Details() {
		if v, ok := d.(T); ok {
			return v
		}
	}
	require.Failf(t, "no such detail", "%T in %v", *new(T), status.Convert(err).Details())
	panic("unreachable")
}

// collect reads a stream to its end.
func collect[T any](t *testing.T, s grpc.ServerStreamingClient[T]) (all []*T) {
	t.Helper()
	for {
		one, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, one)
	}
}

func TestInvoke(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Script = answerWith("three flights")
	c := pb.NewAgentRuntimeClient(d.dial())
	var header metadata.MD
	out, err := c.Invoke(t.Context(), &pb.TurnRequest{Agent: "analyst", Message: "fetch"}, grpc.Header(&header))
	require.NoError(t, err)
	require.Equal(t, "three flights", out.GetOutput())
	require.Equal(t, "completed", out.GetStatus())
	require.Equal(t, []string{"turn-1"}, header.Get("turnstone-turn-id"))
	require.Equal(t, "grpc", d.rt.Submitted()[0].Channel)
	require.Equal(t, agent.DefaultTenant, d.rt.Submitted()[0].Request.Context.Tenant)

	// HTTP returns the same.
	viaHTTP := decode[agent.AgentStepOutput](t, d.send("GET", "/v1/turns/turn-1", ""))
	require.Equal(t, viaHTTP.Output, out.GetOutput())
	require.Equal(t, viaHTTP.ResultRef, out.GetResultRef())
}

func TestInvokeMeetsAPause(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		rt.Emit(id, agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{
			ApprovalID: "a1", ToolName: "send_mail", Args: json.RawMessage(`{"to":"x"}`),
		}}, gatewaytest.Status(agent.StatusWaiting))
	}
	_, err := pb.NewAgentRuntimeClient(d.dial()).Invoke(t.Context(), &pb.TurnRequest{Message: "x"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.Equal(t, "AWAITING_APPROVAL", detail[*errdetails.ErrorInfo](t, err).GetReason())
	waiting := detail[*pb.WaitingTurn](t, err)
	require.Equal(t, "turn-1", waiting.GetTurnId())
	require.JSONEq(t, `{"to":"x"}`, waiting.GetPending()[0].GetArgs())
}

func TestInvokeDeadlineLeavesTheTurnRunning(t *testing.T) {
	d := startGateway(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := pb.NewAgentRuntimeClient(d.dial()).Invoke(ctx, &pb.TurnRequest{Message: "x", TurnId: "t"})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	require.Eventually(t, func() bool { return d.rt.Followers() == 0 }, 5*time.Second, time.Millisecond)
	require.Contains(t, string(d.send("GET", "/v1/turns/t", "").body), `"state":"running"`)
}

func TestStreamAndFollow(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Script = answerWith("one two")
	c := pb.NewAgentRuntimeClient(d.dial())
	s, err := c.Stream(t.Context(), &pb.TurnRequest{Message: "x"})
	require.NoError(t, err)
	header, err := s.Header()
	require.NoError(t, err)
	require.Equal(t, []string{"turn-1"}, header.Get("turnstone-turn-id"))
	all := collect(t, s)
	require.Len(t, all, 4)
	require.Equal(t, "COMPLETED", all[3].GetStatus())
	require.Equal(t, "one two", all[3].GetResult().GetOutput())
	for after := range int64(5) {
		s, err := c.Follow(t.Context(), &pb.FollowRequest{TurnId: "turn-1", AfterIndex: after})
		require.NoError(t, err)
		rest := collect(t, s)
		require.Len(t, rest, 4-int(after))
		for i, e := range rest {
			require.Equal(t, after+int64(i)+1, e.GetMeta().GetEventIndex())
		}
	}
}

func TestFollowFaults(t *testing.T) {
	d := startGateway(t, nil)
	d.begin("t")
	d.rt.Emit("t", gatewaytest.Token("a"), gatewaytest.Token("b"))
	c := pb.NewAgentRuntimeClient(d.dial())
	follow := func(r *pb.FollowRequest) error { return errorOf(receive(c.Follow(t.Context(), r))) }
	require.Equal(t, codes.NotFound, status.Code(follow(&pb.FollowRequest{TurnId: "u"})))
	require.Equal(t, codes.InvalidArgument, status.Code(follow(&pb.FollowRequest{})))
	err := follow(&pb.FollowRequest{TurnId: "t", AfterIndex: -1})
	require.Equal(t, "after_index", detail[*errdetails.BadRequest](t, err).GetFieldViolations()[0].GetField())
	d.rt.Expire(2)
	err = follow(&pb.FollowRequest{TurnId: "t"})
	require.Equal(t, codes.OutOfRange, status.Code(err))
	require.Equal(t, "GAP", detail[*errdetails.ErrorInfo](t, err).GetReason())
}

func TestSlowGRPCFollowerStallsOnlyItself(t *testing.T) {
	d := startGateway(t, nil)
	d.begin("t")
	c := pb.NewAgentRuntimeClient(d.dial())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow, err := c.Follow(ctx, &pb.FollowRequest{TurnId: "t"})
	require.NoError(t, err)
	for range 8 {
		d.rt.Emit("t", gatewaytest.Token(strings.Repeat("x", 1<<20)))
	}
	d.rt.Finish("t", agent.TurnCompleted, "done")
	quick, err := pb.NewAgentRuntimeClient(d.dial()).Follow(t.Context(), &pb.FollowRequest{TurnId: "t"})
	require.NoError(t, err)
	require.Len(t, collect(t, quick), 9)
	require.Equal(t, 1, d.rt.Followers(), "the slow one has not read and is held by flow control")
	require.Len(t, collect(t, slow), 9)
}

// Without a list a turn may use all tools, with an empty list none.
func TestGRPCTakesTools(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Script = answerWith("done")
	c := pb.NewAgentRuntimeClient(d.dial())
	for name, given := range map[string]*pb.ToolNames{"all": nil, "some": {Names: []string{"search_*", "send_mail"}}, "none": {}} {
		want := map[string][]string{"all": nil, "some": {"search_*", "send_mail"}, "none": {}}[name]
		req := &pb.TurnRequest{Message: "x", Limits: &pb.Limits{ToolCalls: 3, Tools: given}}
		_, err := c.Invoke(t.Context(), req)
		require.NoError(t, err, name)
		s, err := c.Stream(t.Context(), req)
		require.NoError(t, err)
		collect(t, s)
		all := d.rt.Submitted()
		for _, e := range all[len(all)-2:] {
			require.Equal(t, &agent.Limits{ToolCalls: 3, Tools: want}, e.Request.Limits, name)
		}
	}
}

func TestGRPCBadRequests(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.Limits.BodyBytes = 1 << 20 })
	d.rt.Script = answerWith("never")
	d.rt.Refuse = func(e agent.Envelope) error {
		if e.Request.SessionID == "limited" {
			return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: 3 * time.Second, Err: errors.New("slow down")}
		}
		if e.Request.SessionID == "bug" {
			return errors.New("secret")
		}
		return nil
	}
	block := func(b *pb.Block) []*pb.Message { return []*pb.Message{{Role: "user", Blocks: []*pb.Block{b}}} }
	cases := map[string]struct {
		req   *pb.TurnRequest
		code  codes.Code
		field string
	}{
		"nothing":       {&pb.TurnRequest{}, codes.InvalidArgument, "message"},
		"role":          {&pb.TurnRequest{Messages: []*pb.Message{{Role: "king"}}}, codes.InvalidArgument, "messages[0].role"},
		"nil message":   {&pb.TurnRequest{Messages: []*pb.Message{nil}}, codes.InvalidArgument, "messages[0].role"},
		"limits":        {&pb.TurnRequest{Message: "x", Limits: &pb.Limits{ToolCalls: -1}}, codes.InvalidArgument, "limits.tool_calls"},
		"tools":         {&pb.TurnRequest{Message: "x", Limits: &pb.Limits{Tools: &pb.ToolNames{Names: []string{"a", "b*c"}}}}, codes.InvalidArgument, "limits.tools[1]"},
		"JSON text":     {&pb.TurnRequest{Message: "x", OutputSchema: "{"}, codes.InvalidArgument, "output_schema"},
		"JSON in block": {&pb.TurnRequest{Messages: block(&pb.Block{Type: "tool_call", Id: "c", Name: "n", Args: "{"})}, codes.InvalidArgument, "messages[0].blocks[0].args"},
		"too large":     {&pb.TurnRequest{Message: strings.Repeat("x", 2<<20)}, codes.ResourceExhausted, ""},
		"limited":       {&pb.TurnRequest{Message: "x", SessionId: "limited"}, codes.ResourceExhausted, ""},
		"bug":           {&pb.TurnRequest{Message: "x", SessionId: "bug"}, codes.Internal, ""},
	}
	c := pb.NewAgentRuntimeClient(d.dial())
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := c.Invoke(t.Context(), tc.req)
			require.Equal(t, tc.code, status.Code(err), "%v", err)
			require.NotContains(t, err.Error(), "secret")
			if tc.field != "" {
				require.Equal(t, tc.field, detail[*errdetails.BadRequest](t, err).GetFieldViolations()[0].GetField())
				require.Equal(t, tc.field, detail[*pb.Failure](t, err).GetField())
			}
			if name == "limited" {
				require.Equal(t, 3*time.Second, detail[*errdetails.RetryInfo](t, err).GetRetryDelay().AsDuration())
			}
			s, err := c.Stream(t.Context(), tc.req)
			require.NoError(t, err)
			_, err = s.Recv()
			require.Equal(t, tc.code, status.Code(err))
		})
	}
	require.Empty(t, d.rt.Submitted())
}

func TestGRPCActionsAndReads(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.Limits.ResultPart = 1000 })
	d.catalog.AgentList = []agent.AgentInfo{{Name: "analyst"}, {Tenant: "acme", Name: "clerk"}}
	var decided agent.Decision
	var provided agent.ProvidedResult
	var cancelled agent.CancelRequest
	d.rt.Decided = func(_ agent.TurnID, v agent.Decision) error { decided = v; return nil }
	d.rt.Provided = func(_ agent.TurnID, v agent.ProvidedResult) error {
		provided = v
		return agent.Errorf(agent.CodeConflict, "", "nothing waits for it")
	}
	d.rt.Cancelled = func(_ agent.TurnID, v agent.CancelRequest) error { cancelled = v; return nil }
	d.begin("t")
	c := pb.NewAgentRuntimeClient(d.dial())
	ctx := t.Context()

	_, err := c.Decide(ctx, &pb.DecideRequest{TurnId: "t", ApprovalId: "a", Decision: "edit", Args: `{"k":1}`, By: "ops"})
	require.NoError(t, err)
	require.Equal(t, agent.Decision{ApprovalID: "a", Decision: agent.DecisionEdit, Args: json.RawMessage(`{"k":1}`), By: "ops"}, decided)
	_, err = c.Decide(ctx, &pb.DecideRequest{TurnId: "t", ApprovalId: "a", Decision: "maybe"})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	_, err = c.Decide(ctx, &pb.DecideRequest{TurnId: "u", ApprovalId: "a", Decision: "approve"})
	require.Equal(t, codes.NotFound, status.Code(err))
	_, err = c.Provide(ctx, &pb.ProvideRequest{TurnId: "t", ToolCallId: "c", Result: `[1]`})
	require.Equal(t, codes.Aborted, status.Code(err))
	require.JSONEq(t, `[1]`, string(provided.Result))
	_, err = c.Provide(ctx, &pb.ProvideRequest{TurnId: "t", ToolCallId: "c", Result: `[`})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	_, err = c.Cancel(ctx, &pb.CancelRequest{TurnId: "t", Reason: "enough"})
	require.NoError(t, err)
	require.Equal(t, "enough", cancelled.Reason)

	view, err := c.GetTurn(ctx, &pb.GetTurnRequest{TurnId: "t"})
	require.NoError(t, err)
	require.Equal(t, "running", view.GetState())
	require.Nil(t, view.GetResult())
	_, err = c.GetTurn(metadata.AppendToOutgoingContext(ctx, "turnstone-tenant", "other"), &pb.GetTurnRequest{TurnId: "t"})
	require.Equal(t, codes.NotFound, status.Code(err))

	list, err := c.ListAgents(ctx, &pb.ListAgentsRequest{Tenant: "acme"})
	require.NoError(t, err)
	require.Equal(t, "clerk", list.GetAgents()[0].GetName())

	for _, size := range []int{0, 1, 1000, 1001, 25_000} {
		document := bytes.Repeat([]byte("x"), size)
		d.rt.Store("artifact://big", document)
		s, err := c.GetResult(ctx, &pb.GetResultRequest{Ref: "artifact://big"})
		require.NoError(t, err)
		parts := collect(t, s)
		require.Equal(t, "artifact://big", parts[0].GetRef())
		require.Equal(t, int64(size), parts[0].GetSize())
		var got []byte
		for _, part := range parts {
			got = append(got, part.GetData()...)
		}
		require.Equal(t, string(document), string(got))
	}
}
