package codec_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
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
	"github.com/turnstone-run/turnstone/internal/gateway/codec"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

const ui = "http://127.0.0.1:8233"

type house struct {
	url  string
	logs *observer.ObservedLogs
}

func open(t *testing.T, c codec.Codec, cfg gateway.Config) house {
	t.Helper()
	d, err := codec.New(c, []string{ui, "https://Temporal.example.com/"})
	require.NoError(t, err)
	core, logs := observer.New(zap.DebugLevel)
	cfg.HTTPAddr, cfg.Runtime, cfg.Catalog, cfg.Doors = "127.0.0.1:0", gatewaytest.New(), &gatewaytest.Catalog{}, []gateway.Door{d}
	cfg.Logger = zap.New(core)
	g, err := gateway.New(cfg)
	require.NoError(t, err)
	require.NoError(t, g.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		require.NoError(t, g.Shutdown(ctx))
	})
	return house{url: "http://" + g.HTTPAddr(), logs: logs}
}

func (h house) send(t *testing.T, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, h.url+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(answer)
}

func sealing(t *testing.T) *payloads.Codec {
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

// TestRemoteCodec is the SDK's own client of the protocol, which the temporal command line uses too.
func TestRemoteCodec(t *testing.T) {
	c := sealing(t)
	h := open(t, c, gateway.Config{Auth: gatewaytest.Credentials{"ops-key": gatewaytest.Caller(agent.AnyTenant, "ops", "*")}})
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
	for _, entry := range h.logs.All() {
		line, err := json.Marshal(entry.ContextMap())
		require.NoError(t, err)
		require.NotContains(t, string(line), "secret", "content is never logged")
	}
	require.Positive(t, h.logs.Len())
}

// double is a codec that says what it was asked.
type double struct {
	stores  bool
	fault   error
	answer  string
	entered chan struct{} // one for each call that has begun; nil: nobody counts
	hold    chan struct{} // calls wait for it
	calls   atomic.Int32
}

func (d *double) do(ctx context.Context, what string, body []byte) ([]byte, error) {
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

func (d *double) EncodeJSON(ctx context.Context, body []byte) ([]byte, error) {
	return d.do(ctx, "encode", body)
}

func (d *double) DecodeJSON(ctx context.Context, body []byte, keep bool) ([]byte, error) {
	if keep {
		return d.do(ctx, "decode, keep", body)
	}
	return d.do(ctx, "decode", body)
}

func (d *double) DownloadJSON(ctx context.Context, body []byte) ([]byte, error) {
	return d.do(ctx, "download", body)
}

func (d *double) Stores() bool { return d.stores }

func TestPaths(t *testing.T) {
	h := open(t, &double{stores: true}, gateway.Config{})
	for path, want := range map[string]string{
		"/codec/encode": "encode", "/codec/decode": "decode", "/codec/download": "download",
		"/codec/decode?preserveStorageRefs=true": "decode, keep", "/codec/decode?preserveStorageRefs=false": "decode",
		"/codec/download?preserveStorageRefs=true": "download", // as the Web UI sends it
	} {
		res, body := h.send(t, http.MethodPost, path, "x")
		require.Equal(t, http.StatusOK, res.StatusCode, path)
		require.Equal(t, "application/json", res.Header.Get("Content-Type"))
		require.Equal(t, "no-store", res.Header.Get("Cache-Control"), "content is nobody's to keep")
		require.JSONEq(t, `{"did":"`+want+`","bytes":"eA=="}`, body)
	}
	res, _ := h.send(t, http.MethodGet, "/codec/decode", "")
	require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)

	without := open(t, &double{}, gateway.Config{})
	res, _ = without.send(t, http.MethodPost, "/codec/download", "x")
	require.Equal(t, http.StatusNotFound, res.StatusCode, "by this the Web UI knows that there is no storage")
}

func TestOperatorsOnly(t *testing.T) {
	c := &double{stores: true}
	h := open(t, c, gateway.Config{Auth: gatewaytest.Credentials{
		"ops":     gatewaytest.Caller(agent.AnyTenant, "ops", "*"),
		"reader":  gatewaytest.Caller(agent.AnyTenant, "reader", "turns.*", "audit.read"),
		"several": gatewaytest.Caller(agent.AnyTenant, "several", "turns.*", "*:x"),
		"tenant":  gatewaytest.Caller("acme", "ann", "*"),
		"other":   gatewaytest.Caller(agent.AnyTenant, "other", "agents.read"),
	}})
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
			res, _ := h.send(t, http.MethodPost, path, "x", header...)
			require.Equal(t, want, res.StatusCode, "%s with %q", path, key)
			require.Equal(t, want == http.StatusOK, c.calls.Load() > before, "%s with %q", path, key)
		}
	}
}

func TestPagesOfTheWebUIOnly(t *testing.T) {
	for name, allowed := range map[string][]string{"default": nil, "listed": {"https://temporal.example.com", "https://app.example.com"}, "any": {"*"}} {
		c := &double{}
		h := open(t, c, gateway.Config{AllowedOrigins: allowed})
		for origin, want := range map[string]int{
			ui: http.StatusOK, "http://127.0.0.1:8234": http.StatusForbidden, "https://127.0.0.1:8233": http.StatusForbidden,
			"http://localhost:8233": http.StatusForbidden, "https://app.example.com": http.StatusForbidden, "null": http.StatusForbidden,
			"http://127.0.0.1:8233.example.com": http.StatusForbidden, h.url: http.StatusForbidden,
		} {
			before := c.calls.Load()
			res, _ := h.send(t, http.MethodPost, "/codec/decode", "x", "Origin", origin)
			require.Equal(t, want, res.StatusCode, "%s: %s", name, origin)
			if want == http.StatusOK {
				require.Equal(t, origin, res.Header.Get("Access-Control-Allow-Origin"), name)
				continue
			}
			require.Equal(t, before, c.calls.Load(), "%s: %s", name, origin)
			require.Empty(t, res.Header.Get("Access-Control-Allow-Origin"), "%s: %s may see nothing", name, origin)
		}
	}
	h := open(t, &double{}, gateway.Config{AllowedOrigins: []string{"https://temporal.example.com"}})
	res, _ := h.send(t, http.MethodPost, "/codec/decode", "x", "Origin", "https://temporal.example.com")
	require.Equal(t, http.StatusOK, res.StatusCode)
}

func TestFaults(t *testing.T) {
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
		h := open(t, &double{fault: test.fault}, gateway.Config{})
		res, body := h.send(t, http.MethodPost, "/codec/decode", "x")
		require.Equal(t, test.status, res.StatusCode)
		require.Contains(t, body, test.says)
		require.NotContains(t, body, "secret")
	}
	c := &double{}
	h := open(t, c, gateway.Config{Limits: gateway.Limits{BodyBytes: 1000}})
	res, _ := h.send(t, http.MethodPost, "/codec/decode", strings.Repeat("x", 1001))
	require.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode)
	require.Zero(t, c.calls.Load())
}

// TestFewAtOnce fills all places: one more request waits, and is told so when its time is up.
func TestFewAtOnce(t *testing.T) {
	const places = 8
	c := &double{entered: make(chan struct{}, places+1), hold: make(chan struct{})}
	h := open(t, c, gateway.Config{Limits: gateway.Limits{CallTimeout: time.Minute}})
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
	require.Equal(t, http.StatusOK, func() int {
		res, _ := h.send(t, http.MethodPost, "/codec/decode", "x")
		return res.StatusCode
	}(), "places are given back")
}

func TestNew(t *testing.T) {
	_, err := codec.New(nil, nil)
	require.Error(t, err)
	for _, origin := range []string{"", "*", "null", "https://*.example.com"} {
		_, err := codec.New(&double{}, []string{origin})
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%q", origin)
	}
}
