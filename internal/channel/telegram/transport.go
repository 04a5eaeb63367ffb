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
	pollTime     = 30 * time.Second // that Telegram holds a getUpdates without news
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

// Do is one request, bounded in time and in the size of its answer. Its error does not hold the token.
func (t *transport) Do(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/getUpdates") {
		return t.poll(r)
	}
	return t.do(r, requestTime, maxReply)
}

// poll is a getUpdates. It confirms what the last one brought, and so waits until that has been dealt with. What the library could not read is
// left empty: it would ask for the same updates for ever.
func (t *transport) poll(r *http.Request) (*http.Response, error) {
	if err := t.intake.settle(r.Context()); err != nil {
		return nil, err
	}
	resp, err := t.do(r, pollTime+requestTime, maxUpdates)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read to its end
	if err != nil {
		return nil, err
	}
	var found struct {
		OK     bool              `json:"ok"`
		Result []json.RawMessage `json:"result"`
	}
	if json.Unmarshal(data, &found) == nil && found.OK {
		for i, raw := range found.Result {
			found.Result[i] = readable(raw)
		}
		t.intake.expect(len(found.Result))
		if data, err = json.Marshal(found); err != nil {
			return nil, err
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// readable is an update as it is, or what the library needs to get past it.
func readable(raw json.RawMessage) json.RawMessage {
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

func (t *transport) do(r *http.Request, within time.Duration, size int64) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), within)
	resp, err := t.client.Do(r.WithContext(ctx)) //nolint:gosec // the operator names the API, and it its files
	if err != nil {
		cancel()
		return nil, t.clean(err)
	}
	resp.Body = &body{Reader: io.LimitReader(resp.Body, size), closer: resp.Body, cancel: cancel}
	return resp, nil
}

// clean takes the token out of an error.
func (t *transport) clean(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		u.URL = t.without(u.URL)
	}
	return err
}

// without is text without the secret part of the token; it has no characters that a URL writes in another way.
func (t *transport) without(text string) string {
	_, secret, _ := strings.Cut(t.token, ":")
	return strings.ReplaceAll(text, secret, "***")
}

// body is an answer's, which ends with its request.
type body struct {
	io.Reader

	closer io.Closer
	cancel context.CancelFunc
}

func (b *body) Close() error {
	defer b.cancel()
	return b.closer.Close()
}
