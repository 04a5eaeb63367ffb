package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// errorOfGRPC returns the error that the details of a gRPC status describe.
func errorOfGRPC(err error) error {
	var wait time.Duration
	var f agent.Failure
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			wait = d.GetRetryDelay().AsDuration()
		case *pb.Failure:
			f = agent.Failure{Type: d.GetType(), Message: d.GetMessage(), Field: d.GetField(), Faults: convertPointers(d.GetFaults(), func(p *pb.Fault) agent.Fault {
				return agent.Fault{
					File: p.GetFile(), Line: int(p.GetLine()), Column: int(p.GetColumn()), Document: p.GetDocument(), Path: p.GetPath(), Message: p.GetMessage(),
				}
			})}
		}
	}
	return ErrorOfStatus(mappingOf(f.Type).http, &f, wait)
}

// Clients of HTTP and gRPC get errors as the gateway has sent them.
func TestErrorsCrossBothWires(t *testing.T) {
	for _, m := range errorTable {
		t.Run(m.kind, func(t *testing.T) {
			if m.kind == TypeGap {
				f := failureOf(fmt.Errorf("follow: %w", agent.ErrGap))
				require.ErrorIs(t, ErrorOfStatus(mappingOf(f.Type).http, f, 0), agent.ErrGap)
				require.ErrorIs(t, errorOfGRPC(grpcError(agent.ErrGap)), agent.ErrGap)
				require.ErrorIs(t, ErrorOfStatus(http.StatusGone, nil, 0), agent.ErrGap)
				return
			}
			sent := &agent.Error{Code: agent.Code(m.kind), Field: "limits.tokens", RetryAfter: 7 * time.Second, Err: errors.New("no")}
			f := failureOf(fmt.Errorf("submit: %w", sent))
			for wire, got := range map[string]error{
				"http": ErrorOfStatus(mappingOf(f.Type).http, f, 7*time.Second), "grpc": errorOfGRPC(grpcError(sent)),
			} {
				var e *agent.Error
				require.ErrorAs(t, got, &e, wire)
				require.Equal(t, sent.Code, e.Code, wire)
				require.Equal(t, "limits.tokens", e.Field, wire)
				require.Equal(t, 7*time.Second, e.RetryAfter, wire)
			}
		})
	}
}

// Errors of the network name hosts only in the log.
func TestErrorsNameNoHosts(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "unix", Addr: &net.UnixAddr{Name: "/tmp/pg/.s.PGSQL.5432"}, Err: syscall.ECONNREFUSED}
	for name, err := range map[string]error{
		"of the database": &agent.Error{Code: agent.CodeUnavailable, Op: "begin turn", Err: refused, Public: "the database does not answer"},
		"wrapped":         fmt.Errorf("load plan: %w", &agent.Error{Code: agent.CodeUnavailable, Err: refused, Public: "the database does not answer"}),
		"of any other":    agent.Errorf(agent.CodeUnavailable, "open blob", "%w", refused),
	} {
		t.Run(name, func(t *testing.T) {
			for _, text := range []string{failureOf(err).Message, grpcError(err).Error()} {
				require.Contains(t, text, "does not answer")
				require.NotContains(t, text, "/tmp")
				require.NotContains(t, text, "dial")
			}
			require.Contains(t, err.Error(), "/tmp/pg", "the log has it")
		})
	}
	require.Equal(t, "session: busy", failureOf(agent.Errorf(agent.CodeUnavailable, "session", "busy")).Message, "our own words stay")
}

func TestFaultsCrossBothWires(t *testing.T) {
	faults := agent.Faults{
		{File: "a.yaml", Line: 3, Column: 7, Document: "RouteTable default/main", Path: "rules[2].agent", Message: "there is no agent \"x\""},
		{Document: "ModelProfile */gpt", Message: "is used by an agent"},
		{File: "b.yaml", Message: "unknown kind"},
	}
	f := failureOf(fmt.Errorf("apply: %w", faults.Err()))
	wire, err := EncodeJSON(errorBody{Error: f})
	require.NoError(t, err)
	var body errorBody
	require.NoError(t, json.Unmarshal(wire, &body))
	for name, got := range map[string]error{
		"http": ErrorOfStatus(http.StatusBadRequest, body.Error, 0), "grpc": errorOfGRPC(grpcError(faults.Err())),
	} {
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(got), name)
		back, ok := errors.AsType[agent.Faults](got)
		require.True(t, ok, name)
		require.Equal(t, faults, back, name)
	}
}

func TestFaultsAreBounded(t *testing.T) {
	var faults agent.Faults
	for i := range 10_000 {
		faults = append(faults, agent.Fault{File: strings.Repeat("ü", 1000), Line: i, Path: "p", Document: "d", Message: strings.Repeat("m", 600)})
	}
	for name, most := range map[string]int{"http": faultBytes, "grpc": grpcFaultBytes} {
		some := clipFaults(faults, most)
		size := 0
		for _, f := range some {
			size += len(f.String())
		}
		require.Less(t, size, most+1000, name)
		require.Equal(t, fmt.Sprintf("… and %d more", len(faults)-(len(some)-1)), some[len(some)-1].Message, name)
	}
	require.Len(t, clipFaults(faults[:1], 1), 1, "one is always told")
	require.Empty(t, clipFaults(nil, 100))
	f := failureOf(faults.Err())
	require.Less(t, len(f.Message), 600)
	require.Contains(t, f.Message, "(and 9999 more)")
	body, err := EncodeJSON(errorBody{Error: f})
	require.NoError(t, err)
	require.Less(t, len(body), 64<<10, "what our own client reads of an error")
}

func TestErrorsOfOthers(t *testing.T) {
	for code, want := range map[int]agent.Code{
		401: agent.CodeUnauthenticated, 403: agent.CodeDenied, 404: agent.CodeNotFound, 418: agent.CodeInvalid, 429: agent.CodeRateLimited,
		500: agent.CodeInternal, 502: agent.CodeUnavailable, 503: agent.CodeUnavailable, 504: agent.CodeUnavailable,
	} {
		require.Equal(t, want, agent.CodeOf(ErrorOfStatus(code, nil, 0)), code)
		require.Equal(t, want, agent.CodeOf(ErrorOfStatus(code, &agent.Failure{Message: "<html>"}, 0)), code)
	}
	require.Equal(t, string(agent.CodeCancelled), failureOf(fmt.Errorf("x: %w", context.Canceled)).Type)
	require.True(t, failureOf(context.DeadlineExceeded).Retryable)
	require.NotContains(t, failureOf(errors.New("secret")).Message, "secret")
	require.NoError(t, grpcError(nil))
}

func TestRetryAfterRoundsUp(t *testing.T) {
	require.Equal(t, "1", retrySeconds(time.Millisecond))
	require.Equal(t, "2", retrySeconds(1001*time.Millisecond))
}
