package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestMapError(t *testing.T) {
	state := func(code string) error { return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}) }
	tests := map[string]struct {
		err  error
		want agent.Code
	}{
		"lost":             {io.ErrUnexpectedEOF, agent.CodeUnavailable},
		"closed pool":      {puddle.ErrClosedPool, agent.CodeUnavailable},
		"deadline":         {context.DeadlineExceeded, agent.CodeUnavailable},
		"cancelled":        {context.Canceled, agent.CodeCancelled},
		"no rows":          {pgx.ErrNoRows, agent.CodeNotFound},
		"shutdown":         {state("57P01"), agent.CodeUnavailable},
		"deadlock":         {state("40P01"), agent.CodeUnavailable},
		"too many clients": {state("53300"), agent.CodeUnavailable},
		"timeout":          {state("57014"), agent.CodeUnavailable},
		"stand-by":         {state("25006"), agent.CodeUnavailable},
		"unique":           {state("23505"), agent.CodeConflict},
		"foreign key":      {state("23503"), agent.CodeNotFound},
		"bad text":         {state("22021"), agent.CodeInvalid},
		"too deep":         {state("54001"), agent.CodeOverflow},
		"syntax":           {state("42601"), agent.CodeInternal},
		"ours":             {fmt.Errorf("x: %w", agent.Errorf(agent.CodeDenied, "", "no")), agent.CodeDenied},
		"anything else":    {errors.New("boom"), agent.CodeInternal},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := mapError("op", test.err)
			require.Equal(t, test.want, agent.CodeOf(err))
			require.ErrorIs(t, err, test.err)
		})
	}
	require.NoError(t, mapError("op", nil))
	require.ErrorIs(t, mapError("op", agent.ErrFenced), agent.ErrFenced)
}

// TestUncertain: after the commit was sent, only an error from the server means that nothing was stored.
func TestUncertain(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		unknown bool
	}{
		"done":                 {nil, false},
		"refused":              {&pgconn.PgError{Code: "40001"}, false},
		"connection lost":      {io.ErrUnexpectedEOF, true},
		"the caller left":      {context.Canceled, true},
		"the server stops":     {&pgconn.PgError{Code: "57P01"}, true},
		"the server has died":  {&pgconn.PgError{Code: "57P02"}, true},
		"the statement's time": {&pgconn.PgError{Code: "57014"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := markUncertain(c.err)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.unknown, errors.Is(mapError("op", err), agent.ErrOutcomeUnknown))
		})
	}
}

// TestReplaceUnstorable: jsonb can hold the result for any JSON, and JSON that it can hold is not changed.
func TestReplaceUnstorable(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"b\n\"\\"}`:               `{"a":"b\n\"\\"}`,
		`"\u0000x"`:                     `"\ufffdx"`,
		`{"a\u0000":["\u0000"]}`:        `{"a\ufffd":["\ufffd"]}`,
		`"\\u0000"`:                     `"\\u0000"`,
		`"\\\u0000"`:                    `"\\\ufffd"`,
		`"\ud83d\ude00"`:                `"\ud83d\ude00"`,
		`"\ud83d"`:                      `"\ufffd"`,
		`"\ud83d\u0000"`:                `"\ufffd\ufffd"`,
		`"\ude00\ud83d\ude00"`:          `"\ufffd\ud83d\ude00"`,
		`[1.50,-2e10,1e999999,1E-2000]`: `[1.50,-2e10,null,null]`,
		`[` + strings.Repeat("1", maxExponent+1) + `]`: `[null]`,
		`"1e999999"`: `"1e999999"`,
	} {
		out, err := replaceUnstorable([]byte(in))
		require.NoError(t, err)
		require.JSONEq(t, want, string(out), in)
	}
	out, err := replaceUnstorable([]byte(`{"b":1.50,"a":1e5}`))
	require.NoError(t, err)
	require.Contains(t, string(out), "1.50", "numbers keep their digits")
}

// FuzzReplaceUnstorable: the result for any JSON is JSON that jsonb can hold, and that does not change if it is replaced again.
func FuzzReplaceUnstorable(f *testing.F) {
	for _, seed := range []string{`{"a":["\u0000","\ud800\udc00",1e5,-0.1E+9999,true,null]}`, `"\\\\u0000\""`, `"\udc00\ud800"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if !json.Valid(in) {
			return
		}
		out, err := replaceUnstorable(in)
		require.NoError(t, err)
		require.True(t, json.Valid(out), "%q became %q", in, out)
		again, err := replaceUnstorable(out)
		require.NoError(t, err)
		require.Equal(t, string(out), string(again))
		require.NotRegexp(t, `(^|[^\\])(\\\\)*\\u0000`, string(out))
	})
}

func TestJobID(t *testing.T) {
	const id = "550e8400-e29b-41d4-a716-446655440000"
	first := func(job string, turn agent.TurnID) uuid.UUID { return jobIDs("acme", job, turn)[0] }
	require.Equal(t, id, first(id, "t1").String())
	require.Equal(t, id, first("", id).String())
	require.Equal(t, first("", "t1"), first("", "t1"))
	require.NotEqual(t, first("", "t1"), first("", "t2"))
	require.EqualValues(t, 5, first("job 7", "t1").Version())
	require.NotEqual(t, jobIDs("acme", id, "")[1], jobIDs("other", id, "")[1])
}

func TestEncodeRepairsRawValues(t *testing.T) {
	b, err := encode(json.RawMessage("\"a\xffb\""))
	require.NoError(t, err)
	require.True(t, bytes.Contains(b, []byte("a\ufffdb")))
	_, err = encode(json.RawMessage(`{`))
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	b, err = encodeRaw(nil)
	require.NoError(t, err)
	require.Nil(t, b)
}

func TestJitter(t *testing.T) {
	low, high := time.Hour, time.Duration(0)
	for range 1000 {
		d := withJitter(time.Second)
		low, high = min(low, d), max(high, d)
	}
	require.Less(t, low, 850*time.Millisecond)
	require.GreaterOrEqual(t, low, 800*time.Millisecond)
	require.Greater(t, high, 1150*time.Millisecond)
	require.LessOrEqual(t, high, 1200*time.Millisecond)
	require.Zero(t, withJitter(0))
}

func TestTenantLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			locks  tenantLocks
			wg     sync.WaitGroup
			inside int
			passed int
		)
		for range 50 {
			wg.Go(func() {
				unlock, err := locks.lock(t.Context(), "op", "acme")
				if err != nil {
					return
				}
				inside++ // for the race detector
				passed += inside
				inside--
				unlock()
			})
		}
		wg.Wait()
		require.Equal(t, 50, passed)
		require.Empty(t, locks.byTenant, "a tenant without requests has no lock")

		unlock, err := locks.lock(t.Context(), "op", "acme")
		require.NoError(t, err)
		other, err := locks.lock(t.Context(), "op", "other")
		require.NoError(t, err)
		other()
		waiting, cancel := context.WithCancel(t.Context())
		errs := make([]error, maxWaiting-1)
		for i := range errs {
			wg.Go(func() { _, errs[i] = locks.lock(waiting, "op", "acme") })
		}
		synctest.Wait()
		_, err = locks.lock(t.Context(), "op", "acme")
		require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "too many requests wait")
		cancel()
		wg.Wait()
		for _, err := range errs {
			require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
		}
		unlock()
		require.Empty(t, locks.byTenant)
	})
}
