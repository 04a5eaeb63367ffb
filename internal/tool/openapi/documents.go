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
	maxFreshness = time.Hour // whatever a server says
	maxStale     = time.Hour // how long a document is used after that when its server is away
	loadTimeout  = 60 * time.Second
	maxParses    = 2 // at once: they cost a processor each, and memory
)

// kept is a document with what is needed to ask for it again.
type kept struct {
	doc        *openapi.Document
	etag, date string
	fresh      time.Time // until when it is not asked for again; the zero time: always fresh, it cannot change
}

// documents keeps parsed documents, by where they are from. Those from a URL are fetched without credentials and are the same for all.
type documents struct {
	http      tool.HTTP
	log       *zap.Logger
	most      int64
	freshness time.Duration
	now       func() time.Time
	flights   singleflight.Group
	parses    chan struct{}

	mu    sync.Mutex
	bytes int64
	kept  *simplelru.LRU[string, *kept]
}

func newDocuments(cfg Config) *documents {
	d := &documents{
		http: cfg.HTTP, log: cfg.Logger, most: cfg.CacheBytes, freshness: cfg.Freshness, now: cfg.now, parses: make(chan struct{}, maxParses),
	}
	d.kept, _ = simplelru.NewLRU(maxDocuments, func(_ string, k *kept) { d.bytes -= int64(k.doc.Size()) }) // fails for a size below 1 alone
	return d
}

func (d *documents) look(key string) *kept {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, _ := d.kept.Get(key)
	return k
}

// keep makes room for a document, unless it is larger than all there is.
func (d *documents) keep(key string, k *kept) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept.Remove(key)
	size := int64(k.doc.Size())
	if size > d.most {
		return
	}
	for d.bytes+size > d.most {
		if _, _, ok := d.kept.RemoveOldest(); !ok {
			break
		}
	}
	d.kept.Add(key, k)
	d.bytes += size
}

// method is that of an operation of a document that is kept, "" when it is not known. It waits for nothing.
func (d *documents) method(u *url.URL, operation string) string {
	if k := d.look(u.String()); k != nil {
		return k.doc.Method(operation)
	}
	return ""
}

// get returns a document. Errors are [agent.Error] values; unavailable may be tried again.
func (d *documents) get(ctx context.Context, inv *agent.Invocation, s source) (*openapi.Document, error) {
	switch {
	case s.url != nil:
		return d.fromURL(ctx, s.url)
	case s.ref != "":
		return d.once(ctx, "cas:"+inv.Tenant+":"+s.ref, func() ([]byte, error) { return read(ctx, inv, s.ref) })
	default:
		sum := sha256.Sum256(s.inline)
		return d.once(ctx, "inline:"+hex.EncodeToString(sum[:]), func() ([]byte, error) { return s.inline, nil })
	}
}

func read(ctx context.Context, inv *agent.Invocation, ref string) ([]byte, error) {
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

// once reads a document that cannot change.
func (d *documents) once(ctx context.Context, key string, data func() ([]byte, error)) (*openapi.Document, error) {
	if k := d.look(key); k != nil {
		return k.doc, nil
	}
	content, err := data()
	if err != nil {
		return nil, err
	}
	doc, err := d.parse(ctx, content, nil)
	if err == nil {
		d.keep(key, &kept{doc: doc})
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
	if k := d.look(key); k != nil && d.now().Before(k.fresh) {
		return k.doc, nil
	}
	flight := d.flights.DoChan(key, func() (any, error) {
		// Others may wait for it who live longer than the one who asked first.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
		defer cancel()
		return d.load(ctx, u)
	})
	select {
	case done := <-flight:
		doc, _ := done.Val.(*openapi.Document)
		return doc, done.Err
	case <-ctx.Done():
		return nil, agent.Interrupted(ctx, "read OpenAPI document")
	}
}

// load asks for a document, with what is known of the one that is kept. When its server is away that one serves for a while.
func (d *documents) load(ctx context.Context, u *url.URL) (*openapi.Document, error) {
	old := d.look(u.String())
	if old != nil && d.now().Before(old.fresh) {
		return old.doc, nil
	}
	fetched, err := d.fetch(ctx, u, old)
	if err == nil {
		d.keep(u.String(), fetched)
		return fetched.doc, nil
	}
	if old != nil && agent.CodeOf(err) == agent.CodeUnavailable && d.now().Before(old.fresh.Add(maxStale)) {
		d.log.Info("an OpenAPI document cannot be asked for again, the kept one is used", zap.String("host", u.Host), zap.Error(err))
		return old.doc, nil
	}
	return nil, err
}

func (d *documents) fetch(ctx context.Context, u *url.URL, old *kept) (*kept, error) {
	req, err := request(ctx, u)
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
		return &kept{doc: old.doc, etag: old.etag, date: old.date, fresh: fresh}, nil
	}
	data, err := content(resp, u, openapi.MaxBytes)
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
	return &kept{doc: doc, etag: resp.Header.Get("ETag"), date: resp.Header.Get("Last-Modified"), fresh: fresh}, nil
}

func request(ctx context.Context, u *url.URL) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, agent.Invalid("openapi_url", "is not a valid URL")
	}
	req.Header.Set("Accept", "application/vnd.oai.openapi+json, application/json, application/yaml;q=0.9, */*;q=0.5")
	return req, nil
}

// content reads a document or a file of one.
func content(resp *http.Response, u *url.URL, most int) ([]byte, error) {
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
	data, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	if err != nil {
		return nil, agent.Errorf(codeOr(err, agent.CodeUnavailable), "", "read the document: %w", err)
	}
	if len(data) > most {
		return nil, agent.Errorf(agent.CodeOverflow, "", "the document is larger than %d bytes", most)
	}
	return data, nil
}

// codeOr is the code of an error that has one.
func codeOr(err error, otherwise agent.Code) agent.Code {
	if code := agent.CodeOf(err); code != agent.CodeInternal {
		return code
	}
	return otherwise
}

// other reads a file that a document refers to. The caller has seen to it that it is of the document's origin; a redirect may not leave it.
func (d *documents) other(ctx context.Context, u *url.URL, most int) ([]byte, error) {
	req, err := request(ctx, u)
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
	return content(resp, u, most)
}

// freshFor is how long a server lets its document be used unasked.
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
