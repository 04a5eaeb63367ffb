package gateway_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"github.com/turnstone-run/turnstone/agent"
	payloads "github.com/turnstone-run/turnstone/internal/codec"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

const ui = "http://127.0.0.1:8233"

// startWithCodec starts a gateway with a codec.
func startWithCodec(t *testing.T, c gateway.Codec, change func(*gateway.Config)) *testGateway {
	return startGateway(t, func(cfg *gateway.Config) {
		cfg.Codec, cfg.CodecOrigins = c, []string{ui, "https://Temporal.example.com/"}
		if change != nil {
			change(cfg)
		}
	})
}

func newPayloadCodec(t *testing.T) *payloads.Codec {
	t.Helper()
	key := make([]byte, 32)
	_, err := rand.Read(key)
	require.NoError(t, err)
	ring, err := payloads.ParseKeys([]string{"one:" + base64.StdEncoding.EncodeToString(key)})
	require.NoError(t, err)
	c, err := payloads.New(payloads.Config{Keys: ring})
	require.NoError(t, err)
	return c
}

// The SDK's client of the protocol, which the temporal command line also uses, encodes and decodes payloads.
func TestRemoteCodec(t *testing.T) {
	c := newPayloadCodec(t)
	core, logs := observer.New(zap.DebugLevel)
	h := startWithCodec(t, c, func(cfg *gateway.Config) {
		cfg.Logger, cfg.Auth = zap.New(core), gatewaytest.Credentials{"ops-key": gatewaytest.Caller(agent.AnyTenant, "ops", "*")}
	})
	remote := converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{
		Endpoint: h.url + "/codec",
		ModifyRequest: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer ops-key")
			r.Header.Set("X-Namespace", "default")
			return nil
		},
	})
	plain, err := converter.GetDefaultDataConverter().ToPayload("the secret <word> of the house")
	require.NoError(t, err)
	sealed, err := remote.Encode([]*commonpb.Payload{plain})
	require.NoError(t, err)
	require.Equal(t, "binary/encrypted", string(sealed[0].GetMetadata()["encoding"]))
	var word string
	require.NoError(t, c.Data().FromPayload(sealed[0], &word))
	require.Equal(t, "the secret <word> of the house", word)
	opened, err := remote.Decode(sealed)
	require.NoError(t, err)
	require.True(t, proto.Equal(plain, opened[0]))

	sealed[0].Data[20] ^= 1
	_, err = remote.Decode(sealed)
	require.Error(t, err)
	for _, entry := range logs.All() {
		line, err := json.Marshal(entry.ContextMap())
		require.NoError(t, err)
		require.NotContains(t, string(line), "secret", "content is never logged")
	}
	require.Positive(t, logs.Len())
}

// fakeCodec is a codec that returns the name of the called method and the body.
type fakeCodec struct {
	stores  bool
	fault   error
	answer  string
	entered chan struct{} // gets an entry for each call; may be nil
	hold    chan struct{} // if entered is set, calls wait until it is closed
	calls   atomic.Int32
}

func (d *fakeCodec) do(ctx context.Context, what string, body []byte) ([]byte, error) {
	d.calls.Add(1)
	if d.entered != nil {
		d.entered <- struct{}{}
		select {
		case <-d.hold:
		case <-ctx.Done():
		}
	}
	if d.answer != "" {
		return []byte(d.answer), d.fault
	}
	return []byte(`{"did":"` + what + `","bytes":"` + base64.StdEncoding.EncodeToString(body) + `"}`), d.fault
}

func (d *fakeCodec) EncodeJSON(ctx context.Context, body []byte) ([]byte, error) {
	return d.do(ctx, "encode", body)
}

func (d *fakeCodec) DecodeJSON(ctx context.Context, body []byte, keep bool) ([]byte, error) {
	if keep {
		return d.do(ctx, "decode, keep", body)
	}
	return d.do(ctx, "decode", body)
}

func (d *fakeCodec) DownloadJSON(ctx context.Context, body []byte) ([]byte, error) {
	return d.do(ctx, "download", body)
}

func (d *fakeCodec) Stores() bool { return d.stores }

func TestCodecPaths(t *testing.T) {
	h := startWithCodec(t, &fakeCodec{stores: true}, nil)
	for path, want := range map[string]string{
		"/codec/encode": "encode", "/codec/decode": "decode", "/codec/download": "download",
		"/codec/decode?preserveStorageRefs=true": "decode, keep", "/codec/decode?preserveStorageRefs=false": "decode",
		"/codec/download?preserveStorageRefs=true": "download", // as the Web UI sends it
	} {
		res := h.send(http.MethodPost, path, "x")
		require.Equal(t, http.StatusOK, res.status, path)
		require.Equal(t, "application/json", res.header.Get("Content-Type"))
		require.Equal(t, "no-store", res.header.Get("Cache-Control"), "content is nobody's to keep")
		require.JSONEq(t, `{"did":"`+want+`","bytes":"eA=="}`, string(res.body))
	}
	res := h.send(http.MethodGet, "/codec/decode", "")
	require.Equal(t, http.StatusMethodNotAllowed, res.status)

	without := startWithCodec(t, &fakeCodec{}, nil)
	res = without.send(http.MethodPost, "/codec/download", "x")
	require.Equal(t, http.StatusNotFound, res.status, "by this the Web UI knows that there is no storage")
}

func TestCodecIsForOperators(t *testing.T) {
	c := &fakeCodec{stores: true}
	h := startWithCodec(t, c, func(cfg *gateway.Config) {
		cfg.Auth = gatewaytest.Credentials{
			"ops":     gatewaytest.Caller(agent.AnyTenant, "ops", "*"),
			"reader":  gatewaytest.Caller(agent.AnyTenant, "reader", "turns.*", "audit.read"),
			"several": gatewaytest.Caller(agent.AnyTenant, "several", "turns.*", "*:x"),
			"tenant":  gatewaytest.Caller("acme", "ann", "*"),
			"other":   gatewaytest.Caller(agent.AnyTenant, "other", "agents.read"),
		}
	})
	for key, want := range map[string]int{
		"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, "reader": http.StatusForbidden, "several": http.StatusForbidden,
		"tenant": http.StatusForbidden, "other": http.StatusForbidden, "ops": http.StatusOK,
	} {
		for _, path := range []string{"/codec/encode", "/codec/decode", "/codec/download"} {
			before := c.calls.Load()
			header := []string{"Authorization", "Bearer " + key}
			if key == "" {
				header = nil
			}
			res := h.send(http.MethodPost, path, "x", header...)
			require.Equal(t, want, res.status, "%s with %q", path, key)
			require.Equal(t, want == http.StatusOK, c.calls.Load() > before, "%s with %q", path, key)
		}
	}
}

func TestCodecIsForTheWebUI(t *testing.T) {
	for name, allowed := range map[string][]string{"default": nil, "listed": {"https://temporal.example.com", "https://app.example.com"}, "any": {"*"}} {
		c := &fakeCodec{}
		h := startWithCodec(t, c, func(cfg *gateway.Config) { cfg.AllowedOrigins = allowed })
		for origin, want := range map[string]int{
			ui: http.StatusOK, "http://127.0.0.1:8234": http.StatusForbidden, "https://127.0.0.1:8233": http.StatusForbidden,
			"http://localhost:8233": http.StatusForbidden, "https://app.example.com": http.StatusForbidden, "null": http.StatusForbidden,
			"http://127.0.0.1:8233.example.com": http.StatusForbidden, h.url: http.StatusForbidden,
		} {
			before := c.calls.Load()
			res := h.send(http.MethodPost, "/codec/decode", "x", "Origin", origin)
			require.Equal(t, want, res.status, "%s: %s", name, origin)
			if want == http.StatusOK {
				require.Equal(t, origin, res.header.Get("Access-Control-Allow-Origin"), name)
				continue
			}
			require.Equal(t, before, c.calls.Load(), "%s: %s", name, origin)
			require.Empty(t, res.header.Get("Access-Control-Allow-Origin"), "%s: %s may see nothing", name, origin)
		}
	}
	h := startWithCodec(t, &fakeCodec{}, func(cfg *gateway.Config) { cfg.AllowedOrigins = []string{"https://temporal.example.com"} })
	res := h.send(http.MethodPost, "/codec/decode", "x", "Origin", "https://temporal.example.com")
	require.Equal(t, http.StatusOK, res.status)
}

func TestCodecFaults(t *testing.T) {
	for _, test := range []struct {
		fault  error
		status int
		says   string
	}{
		{agent.Invalid("payloads[3]", "is odd"), http.StatusBadRequest, "payloads[3]"},
		{agent.Errorf(agent.CodeUnavailable, "", "the store is away"), http.StatusServiceUnavailable, "away"},
		{agent.FieldErrorf(agent.CodeOverflow, "payloads", "too many"), http.StatusRequestEntityTooLarge, "too many"},
		{errors.New("the secret"), http.StatusInternalServerError, "internal"},
	} {
		h := startWithCodec(t, &fakeCodec{fault: test.fault}, nil)
		res := h.send(http.MethodPost, "/codec/decode", "x")
		require.Equal(t, test.status, res.status)
		require.Contains(t, string(res.body), test.says)
		require.NotContains(t, string(res.body), "secret")
	}
	c := &fakeCodec{}
	h := startWithCodec(t, c, func(cfg *gateway.Config) { cfg.Limits.BodyBytes = 1000 })
	res := h.send(http.MethodPost, "/codec/decode", strings.Repeat("x", 1001))
	require.Equal(t, http.StatusRequestEntityTooLarge, res.status)
	require.Zero(t, c.calls.Load())
}

// At the maximum number of concurrent calls, a further request waits until its deadline.
func TestCodecBoundsCalls(t *testing.T) {
	const places = 8
	c := &fakeCodec{entered: make(chan struct{}, places+1), hold: make(chan struct{})}
	h := startWithCodec(t, c, func(cfg *gateway.Config) { cfg.Limits.CallTimeout = time.Minute })
	type outcome struct {
		status int
		err    error
	}
	done := make(chan outcome, places)
	begin := func(ctx context.Context) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/codec/decode", bytes.NewReader([]byte("x")))
		if err != nil {
			done <- outcome{err: err}
			return
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			done <- outcome{err: err}
			return
		}
		done <- outcome{status: res.StatusCode, err: res.Body.Close()}
	}
	for range places {
		go begin(t.Context())
	}
	for range places {
		<-c.entered
	}
	ctx, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer leave()
	begin(ctx)
	require.ErrorIs(t, (<-done).err, context.DeadlineExceeded)
	require.EqualValues(t, places, c.calls.Load())
	close(c.hold)
	for range places {
		require.Equal(t, outcome{status: http.StatusOK}, <-done)
	}
	require.Equal(t, http.StatusOK, h.send(http.MethodPost, "/codec/decode", "x").status, "places are given back")
}

// The Web UI's origins may call the codec, whatever other origins are allowed.
func TestCodecPreflight(t *testing.T) {
	for _, allowed := range [][]string{nil, {"https://app.example.com"}, {"*"}} {
		h := startWithCodec(t, &fakeCodec{}, func(cfg *gateway.Config) {
			cfg.AllowedOrigins, cfg.Auth = allowed, gatewaytest.Credentials{"ops": gatewaytest.Caller(agent.AnyTenant, "ops", "*")}
		})
		ask := func(path, origin string) answer {
			return h.send(http.MethodOptions, path, "", "Origin", origin, "Access-Control-Request-Method", "POST",
				"Access-Control-Request-Headers", "authorization,authorization-extras,content-type,x-namespace")
		}
		for _, origin := range []string{ui, "https://temporal.example.com"} {
			res := ask("/codec/decode", origin)
			require.Equal(t, http.StatusNoContent, res.status)
			require.Equal(t, origin, res.header.Get("Access-Control-Allow-Origin"))
			for _, header := range []string{"Authorization", "Authorization-Extras", "Content-Type", "X-Namespace"} {
				require.Contains(t, res.header.Get("Access-Control-Allow-Headers"), header)
			}
			res = h.send(http.MethodPost, "/codec/decode", "x", "Origin", origin, "Authorization", "Bearer ops", "X-Namespace", "default")
			require.Equal(t, http.StatusOK, res.status)
			require.Equal(t, origin, res.header.Get("Access-Control-Allow-Origin"))
		}
		for _, origin := range []string{"https://app.example.com", "http://localhost:1", h.url} {
			res := ask("/codec/decode", origin)
			require.Equal(t, http.StatusForbidden, res.status, "not even asked: %s", origin)
			require.Empty(t, res.header.Get("Access-Control-Allow-Origin"))
		}
		res := ask("/v1/turns", "http://localhost:1")
		require.Equal(t, http.StatusNoContent, res.status, "other paths are as ever")
		require.NotContains(t, res.header.Get("Access-Control-Allow-Headers"), "X-Namespace")
	}
	h := startWithCodec(t, &fakeCodec{}, func(cfg *gateway.Config) { cfg.AllowedOrigins = []string{"https://app.example.com"} })
	res := h.send(http.MethodGet, "/health", "", "Origin", "https://temporal.example.com")
	require.Equal(t, http.StatusForbidden, res.status, "the Web UI's pages may call the codec and nothing else")
}
