package openapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/openapi"
	"github.com/turnstone-run/turnstone/internal/tool"
)

const (
	maxDocuments = 500
	maxFreshness = time.Hour // even if a server allows more
	maxStale     = time.Hour // how long a document is used after that if its server is not available
	loadTimeout  = 60 * time.Second
	maxParses    = 2 // at once, because each uses a processor and much memory
)

// cachedDocument is a document with the validators for requesting it again.
type cachedDocument struct {
	doc        *openapi.Document
	etag, date string
	fresh      time.Time // until when it is used without a request; zero: it cannot change
}

// documents caches parsed documents by their location. Those with a URL are fetched without credentials and are the same for all tenants.
type documents struct {
	http      tool.HTTP
	log       *zap.Logger
	maxBytes  int64
	freshness time.Duration
	now       func() time.Time
	flights   singleflight.Group
	parses    chan struct{}

	mu     sync.Mutex
	bytes  int64
	cached *simplelru.LRU[string, *cachedDocument]
}

func newDocuments(cfg Config) *documents {
	d := &documents{
		http: cfg.HTTP, log: cfg.Logger, maxBytes: cfg.CacheBytes, freshness: cfg.Freshness, now: cfg.now, parses: make(chan struct{}, maxParses),
	}
	d.cached, _ = simplelru.NewLRU(maxDocuments, func(_ string, k *cachedDocument) { d.bytes -= int64(k.doc.Size()) }) // fails only for a size below 1
	return d
}

func (d *documents) lookUp(key string) *cachedDocument {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, _ := d.cached.Get(key)
	return k
}

// cache adds a document, unless it is larger than the cache, and removes the least recently used ones if there is no room.
func (d *documents) cache(key string, k *cachedDocument) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cached.Remove(key)
	size := int64(k.doc.Size())
	if size > d.maxBytes {
		return
	}
	for d.bytes+size > d.maxBytes {
		if _, _, ok := d.cached.RemoveOldest(); !ok {
			break
		}
	}
	d.cached.Add(key, k)
	d.bytes += size
}

// method returns the method of an operation of a cached document, "" if the document is not cached or has no such operation.
func (d *documents) method(u *url.URL, operation string) string {
	if k := d.lookUp(u.String()); k != nil {
		return k.doc.Method(operation)
	}
	return ""
}

// get returns a document. Errors are [agent.Error] values. After [agent.CodeUnavailable] a later attempt may succeed.
func (d *documents) get(ctx context.Context, inv *agent.Invocation, s documentLocation) (*openapi.Document, error) {
	switch {
	case s.url != nil:
		return d.fromURL(ctx, s.url)
	case s.ref != "":
		return d.immutable(ctx, "cas:"+inv.Tenant+":"+s.ref, func() ([]byte, error) { return readStored(ctx, inv, s.ref) })
	default:
		sum := sha256.Sum256(s.inline)
		return d.immutable(ctx, "inline:"+hex.EncodeToString(sum[:]), func() ([]byte, error) { return s.inline, nil })
	}
}

func readStored(ctx context.Context, inv *agent.Invocation, ref string) ([]byte, error) {
	content, err := inv.OpenBinary(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("open the document: %w", err)
	}
	defer content.Close() //nolint:errcheck // nothing is lost: it was read
	data, err := io.ReadAll(io.LimitReader(content, openapi.MaxBytes+1))
	if err != nil {
		return nil, agent.Errorf(agent.CodeUnavailable, "", "read the document: %w", err)
	}
	return data, nil
}

// immutable returns a document that cannot change.
func (d *documents) immutable(ctx context.Context, key string, data func() ([]byte, error)) (*openapi.Document, error) {
	if k := d.lookUp(key); k != nil {
		return k.doc, nil
	}
	content, err := data()
	if err != nil {
		return nil, err
	}
	doc, err := d.parse(ctx, content, nil)
	if err == nil {
		d.cache(key, &cachedDocument{doc: doc})
	}
	return doc, err
}

func (d *documents) parse(ctx context.Context, data []byte, from *url.URL) (*openapi.Document, error) {
	select {
	case d.parses <- struct{}{}:
		defer func() { <-d.parses }()
	case <-ctx.Done():
		return nil, agent.Interrupted(ctx, "read OpenAPI document")
	}
	return openapi.Parse(data, from)
}

func (d *documents) fromURL(ctx context.Context, u *url.URL) (*openapi.Document, error) {
	key := u.String()
	if k := d.lookUp(key); k != nil && d.now().Before(k.fresh) {
		return k.doc, nil
	}
	flight := d.flights.DoChan(key, func() (any, error) {
		// Other calls may wait for the document after the first one has ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
		defer cancel()
		return d.refresh(ctx, u)
	})
	select {
	case done := <-flight:
		doc, _ := done.Val.(*openapi.Document)
		return doc, done.Err
	case <-ctx.Done():
		return nil, agent.Interrupted(ctx, "read OpenAPI document")
	}
}

// refresh fetches a document, or asks whether the cached one has changed. If the server is unavailable, it returns the cached document until
// that is maxStale too old.
func (d *documents) refresh(ctx context.Context, u *url.URL) (*openapi.Document, error) {
	old := d.lookUp(u.String())
	if old != nil && d.now().Before(old.fresh) {
		return old.doc, nil
	}
	fetched, err := d.fetch(ctx, u, old)
	if err == nil {
		d.cache(u.String(), fetched)
		return fetched.doc, nil
	}
	if old != nil && agent.CodeOf(err) == agent.CodeUnavailable && d.now().Before(old.fresh.Add(maxStale)) {
		d.log.Info("an OpenAPI document cannot be asked for again, the kept one is used", zap.String("host", u.Host), zap.Error(err))
		return old.doc, nil
	}
	return nil, err
}

func (d *documents) fetch(ctx context.Context, u *url.URL, old *cachedDocument) (*cachedDocument, error) {
	req, err := newRequest(ctx, u)
	if err != nil {
		return nil, err
	}
	if old != nil && old.etag != "" {
		req.Header.Set("If-None-Match", old.etag)
	}
	if old != nil && old.date != "" {
		req.Header.Set("If-Modified-Since", old.date)
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost: it was read
	fresh := d.now().Add(d.freshFor(resp.Header))
	if resp.StatusCode == http.StatusNotModified && old != nil {
		return &cachedDocument{doc: old.doc, etag: old.etag, date: old.date, fresh: fresh}, nil
	}
	data, err := readDocument(resp, u, openapi.MaxBytes)
	if err != nil {
		return nil, err
	}
	from := u
	if resp.Request != nil && resp.Request.URL != nil {
		from = resp.Request.URL
	}
	doc, err := d.parse(ctx, data, from)
	if err != nil {
		return nil, err
	}
	return &cachedDocument{doc: doc, etag: resp.Header.Get("ETag"), date: resp.Header.Get("Last-Modified"), fresh: fresh}, nil
}

func newRequest(ctx context.Context, u *url.URL) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, agent.Invalid("openapi_url", "is not a valid URL")
	}
	req.Header.Set("Accept", "application/vnd.oai.openapi+json, application/json, application/yaml;q=0.9, */*;q=0.5")
	return req, nil
}

// readDocument reads a document or a file that it refers to.
func readDocument(resp *http.Response, u *url.URL, maxBytes int) ([]byte, error) {
	if resp.StatusCode != http.StatusOK {
		code := agent.CodeInvalid
		switch {
		case resp.StatusCode >= 500, resp.StatusCode == http.StatusTooManyRequests:
			code = agent.CodeUnavailable
		case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusGone:
			code = agent.CodeNotFound
		case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
			code = agent.CodeDenied
		}
		return nil, agent.Errorf(code, "", "%s answered %d to the request for the document", u.Host, resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, int64(maxBytes)+1))
	if err != nil {
		return nil, agent.Errorf(codeOr(err, agent.CodeUnavailable), "", "read the document: %w", err)
	}
	if len(data) > maxBytes {
		return nil, agent.Errorf(agent.CodeOverflow, "", "the document is larger than %d bytes", maxBytes)
	}
	return data, nil
}

// codeOr returns the code of an error, or the fallback if it has none.
func codeOr(err error, fallback agent.Code) agent.Code {
	if code := agent.CodeOf(err); code != agent.CodeInternal {
		return code
	}
	return fallback
}

// fetchFile reads a file that a document refers to. The caller has checked that it has the document's origin. Redirects to other origins are
// refused.
func (d *documents) fetchFile(ctx context.Context, u *url.URL, maxBytes int) ([]byte, error) {
	req, err := newRequest(ctx, u)
	if err != nil {
		return nil, err
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost: it was read
	if r := resp.Request; r != nil && r.URL != nil && (r.URL.Scheme != u.Scheme || r.URL.Host != u.Host) {
		return nil, agent.Errorf(agent.CodeDenied, "", "a file that the document refers to is redirected to another origin")
	}
	return readDocument(resp, u, maxBytes)
}

// freshFor returns how long a document with these headers is used without asking the server again.
func (d *documents) freshFor(h http.Header) time.Duration {
	fresh := d.freshness
	for directive := range strings.SplitSeq(strings.ToLower(h.Get("Cache-Control")), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch name {
		case "no-store", "no-cache":
			return 0
		case "max-age":
			if seconds, err := strconv.Atoi(strings.Trim(value, `"`)); err == nil && seconds >= 0 {
				fresh = min(time.Duration(min(seconds, int(maxFreshness.Seconds())))*time.Second, maxFreshness)
			}
		}
	}
	return fresh
}
