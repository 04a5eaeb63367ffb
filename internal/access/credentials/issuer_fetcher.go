package credentials

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Bounds of requests to an issuer. Anyone can write a token with an unknown key id, which makes the key set ask for new keys. So an answer is
// kept for freshFor, and a failure for a time that doubles with each one, from minBackoff to maxBackoff.
const (
	freshFor      = 10 * time.Second
	minBackoff    = time.Second
	maxBackoff    = time.Minute
	maxIssuerBody = 1 << 20
)

// fetcher is a transport for one URL that remembers its last answer.
type fetcher struct {
	next http.RoundTripper
	now  func() time.Time

	mu       sync.Mutex
	until    time.Time // the answer is kept until then
	failures int
	header   http.Header
	body     []byte
	err      error
}

// RoundTrip implements [http.RoundTripper].
func (f *fetcher) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now().After(f.until) || f.until.IsZero() {
		f.header, f.body, f.err = f.fetch(r)
		if f.err == nil {
			f.failures, f.until = 0, f.now().Add(freshFor)
		} else {
			f.until = f.now().Add(min(minBackoff<<min(f.failures, 10), maxBackoff))
			f.failures++
		}
	}
	if f.err != nil {
		return nil, f.err
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, Header: f.header.Clone(),
		ContentLength: int64(len(f.body)), Body: io.NopCloser(bytes.NewReader(f.body)),
	}, nil
}

// fetch sends a request. Any status but 200 and a body above maxIssuerBody are errors.
func (f *fetcher) fetch(r *http.Request) (http.Header, []byte, error) {
	resp, err := f.next.RoundTrip(r)
	if err != nil {
		return nil, nil, fmt.Errorf("ask the issuer: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // read-only
	if resp.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("the issuer answers %.60s", resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxIssuerBody+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("read the issuer's answer: %w", err)
	case len(body) > maxIssuerBody:
		return nil, nil, errors.New("the issuer's answer is too large")
	}
	return http.Header{"Content-Type": resp.Header.Values("Content-Type")}, body, nil
}
