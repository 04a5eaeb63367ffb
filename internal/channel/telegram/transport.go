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
	pollTime     = 30 * time.Second // for which Telegram holds a getUpdates without updates
	requestTime  = 15 * time.Second // shorter than a lease
	maxUpdates   = 16 << 20         // bytes of an answer to getUpdates, which has at most 100
	maxReply     = 1 << 20          // bytes of any other answer
	maxConns     = 64
	idleConnTime = 90 * time.Second
)

// transport is the HTTP client that the library uses.
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
				Proxy: http.ProxyFromEnvironment, MaxConnsPerHost: maxConns, MaxIdleConnsPerHost: maxConns, IdleConnTimeout: idleConnTime,
				TLSHandshakeTimeout: requestTime, ForceAttemptHTTP2: true,
			},
			// The token is in the path: nobody else may see it in a Referer.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Do sends a request, bounded in time and in the size of the answer. Its error does not hold the token.
func (t *transport) Do(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/getUpdates") {
		return t.poll(r)
	}
	return t.send(r, requestTime, maxReply)
}

// poll sends a getUpdates. That confirms the updates of the last one, so poll first waits until they are handled. It empties updates that the
// library cannot read, because the library would request them again for ever.
func (t *transport) poll(r *http.Request) (*http.Response, error) {
	if err := t.intake.waitUntilIdle(r.Context()); err != nil {
		return nil, err
	}
	resp, err := t.send(r, pollTime+requestTime, maxUpdates)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read completely
	if err != nil {
		return nil, err
	}
	var found struct {
		OK     bool              `json:"ok"`
		Result []json.RawMessage `json:"result"`
	}
	if json.Unmarshal(data, &found) == nil && found.OK {
		for i, raw := range found.Result {
			found.Result[i] = readableUpdate(raw)
		}
		t.intake.setExpected(len(found.Result))
		if data, err = json.Marshal(found); err != nil {
			return nil, err
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// readableUpdate returns an update unchanged or, if the library cannot read it, its id alone.
func readableUpdate(raw json.RawMessage) json.RawMessage {
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

func (t *transport) send(r *http.Request, within time.Duration, size int64) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), within)
	resp, err := t.client.Do(r.WithContext(ctx)) //nolint:gosec // the operator configures the API, which names its files
	if err != nil {
		cancel()
		return nil, t.redactError(err)
	}
	resp.Body = &body{Reader: io.LimitReader(resp.Body, size), closer: resp.Body, cancel: cancel}
	return resp, nil
}

// redactError removes the token from an error.
func (t *transport) redactError(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		u.URL = t.redact(u.URL)
	}
	return err
}

// redact returns text without the secret part of the token, which has no characters that URLs escape.
func (t *transport) redact(text string) string {
	_, secret, _ := strings.Cut(t.token, ":")
	return strings.ReplaceAll(text, secret, "***")
}

// body is the body of an answer. Closing it ends the request.
type body struct {
	io.Reader

	closer io.Closer
	cancel context.CancelFunc
}

func (b *body) Close() error {
	defer b.cancel()
	return b.closer.Close()
}
