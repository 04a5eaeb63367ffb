package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"
)

// Bounds of one request to the Bot API.
const (
	pollTime        = 30 * time.Second // how long Telegram waits for updates before it answers getUpdates
	requestTimeout  = 15 * time.Second // shorter than the default lease
	maxUpdatesBytes = 16 << 20         // of a response to getUpdates, which has at most 100 updates
	maxReplyBytes   = 1 << 20          // of any other response
	maxConns        = 64
	idleConnTimeout = 90 * time.Second
)

// transport is the HTTP client of the library. It implements bot.HttpClient.
type transport struct {
	client *http.Client
	token  string
	intake *intake
}

func newTransport(token string, in *intake) *transport {
	return &transport{
		token: token, intake: in,
		client: &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: maxConns, MaxIdleConnsPerHost: maxConns, IdleConnTimeout: idleConnTimeout,
				TLSHandshakeTimeout: requestTimeout, ForceAttemptHTTP2: true,
			},
			// The path contains the token, which a redirect would pass on in the Referer header.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Do sends a request. The time and the size of the response are bounded. An error does not contain the token.
func (t *transport) Do(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/getUpdates") {
		return t.poll(r)
	}
	return t.send(r, requestTimeout, maxReplyBytes)
}

// poll sends getUpdates. As that confirms the updates of the last poll, it first waits until they are handled. An update that the library cannot
// decode is reduced to its id, because the library would request it again for ever.
func (t *transport) poll(r *http.Request) (*http.Response, error) {
	if err := t.intake.waitUntilIdle(r.Context()); err != nil {
		return nil, err
	}
	resp, err := t.send(r, pollTime+requestTimeout, maxUpdatesBytes)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read completely
	if err != nil {
		return nil, err
	}
	var reply struct {
		OK     bool              `json:"ok"`
		Result []json.RawMessage `json:"result"`
	}
	if json.Unmarshal(data, &reply) == nil && reply.OK {
		for i, raw := range reply.Result {
			reply.Result[i] = decodableUpdate(raw)
		}
		t.intake.setExpected(len(reply.Result))
		if data, err = json.Marshal(reply); err != nil {
			return nil, err
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// decodableUpdate returns the update or, if the library cannot decode it, an update with its id alone.
func decodableUpdate(raw json.RawMessage) json.RawMessage {
	var u models.Update
	if json.Unmarshal(raw, &u) == nil {
		return raw
	}
	var id struct {
		ID json.RawMessage `json:"update_id"`
	}
	if json.Unmarshal(raw, &id) != nil || len(id.ID) == 0 {
		return json.RawMessage(`{}`)
	}
	return json.RawMessage(`{"update_id":` + string(id.ID) + `}`)
}

func (t *transport) send(r *http.Request, timeout time.Duration, maxBytes int64) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	resp, err := t.client.Do(r.WithContext(ctx)) //nolint:gosec // the operator configures the API's address, and the API names its files
	if err != nil {
		cancel()
		return nil, t.redactError(err)
	}
	resp.Body = &body{Reader: io.LimitReader(resp.Body, maxBytes), closer: resp.Body, cancel: cancel}
	return resp, nil
}

// redactError removes the token from an error.
func (t *transport) redactError(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		u.URL = t.redact(u.URL)
	}
	return err
}

// redact returns text without the token's secret. The secret has no characters that URLs escape.
func (t *transport) redact(text string) string {
	_, secret, _ := strings.Cut(t.token, ":")
	return strings.ReplaceAll(text, secret, "***")
}

// body is the body of a response. Closing it ends the request.
type body struct {
	io.Reader

	closer io.Closer
	cancel context.CancelFunc
}

func (b *body) Close() error {
	defer b.cancel()
	return b.closer.Close()
}
