package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

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

// TestUncertain: after the commit was sent only the server's refusal says that nothing is stored.
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
			err := uncertain(c.err)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.unknown, errors.Is(mapError("op", err), agent.ErrOutcomeUnknown))
		})
	}
}

func TestScrub(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"b\n\"\\"}`:               `{"a":"b\n\"\\"}`,
		`"\u0000x"`:                     `"\ufffdx"`,
		`"\\u0000"`:                     `"\\u0000"`,
		`"\\\u0000"`:                    `"\\\ufffd"`,
		`"\ud83d\ude00"`:                `"\ud83d\ude00"`,
		`"\ud83d"`:                      `"\ufffd"`,
		`"\ud83d\u0000"`:                `"\ufffd\ufffd"`,
		`"\ude00\ud83d\ude00"`:          `"\ufffd\ud83d\ude00"`,
		`[1.50,-2e10,1e999999,1E-2000]`: `[1.50,-2e10,null,null]`,
		`"1e999999"`:                    `"1e999999"`,
	} {
		require.Equal(t, want, string(scrub([]byte(in))), in)
	}
}

// Whatever JSON comes in, what goes out is JSON, has nothing in it that jsonb refuses, and is left alone the second time.
func FuzzScrub(f *testing.F) {
	for _, seed := range []string{`{"a":["\u0000","\ud800\udc00",1e5,-0.1E+9999,true,null]}`, `"\\\\u0000\""`, `"\udc00\ud800"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if !json.Valid(in) {
			return
		}
		out := scrub(in)
		require.True(t, json.Valid(out), "%q became %q", in, out)
		require.Equal(t, string(out), string(scrub(out)))
		tokens := json.NewDecoder(bytes.NewReader(out))
		tokens.UseNumber()
		for {
			token, err := tokens.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if text, ok := token.(string); ok {
				require.NotContains(t, text, "\x00")
			}
		}
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
