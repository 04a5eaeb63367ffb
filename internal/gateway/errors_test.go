package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// Every error that goes out through a door comes in through the client's side as what it was.
func TestErrorsCrossBothWires(t *testing.T) {
	for _, m := range errorTable {
		t.Run(m.kind, func(t *testing.T) {
			if m.kind == TypeGap {
				f := failureOf(fmt.Errorf("follow: %w", agent.ErrGap))
				require.ErrorIs(t, ErrorOfStatus(mappingOf(f.Type).http, f, 0), agent.ErrGap)
				require.ErrorIs(t, ErrorOfGRPC(grpcError(agent.ErrGap)), agent.ErrGap)
				require.ErrorIs(t, ErrorOfStatus(http.StatusGone, nil, 0), agent.ErrGap)
				return
			}
			sent := &agent.Error{Code: agent.Code(m.kind), Field: "limits.tokens", RetryAfter: 7 * time.Second, Err: errors.New("no")}
			f := failureOf(fmt.Errorf("submit: %w", sent))
			for wire, got := range map[string]error{
				"http": ErrorOfStatus(mappingOf(f.Type).http, f, 7*time.Second), "grpc": ErrorOfGRPC(grpcError(sent)),
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

func TestErrorsOfOthers(t *testing.T) {
	for status, want := range map[int]agent.Code{
		401: agent.CodeDenied, 403: agent.CodeDenied, 404: agent.CodeNotFound, 418: agent.CodeInvalid, 429: agent.CodeRateLimited,
		500: agent.CodeInternal, 502: agent.CodeUnavailable, 503: agent.CodeUnavailable, 504: agent.CodeUnavailable,
	} {
		require.Equal(t, want, agent.CodeOf(ErrorOfStatus(status, nil, 0)), status)
		require.Equal(t, want, agent.CodeOf(ErrorOfStatus(status, &agent.Failure{Message: "<html>"}, 0)), status)
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
