package pipeline_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// store is a blob store and a dataset store. Tests may also set content under any reference.
type store struct {
	mu      sync.Mutex
	content map[string]string
	puts    int
	fail    error // of Put
}

func newStore() *store { return &store{content: map[string]string{}} }

func (s *store) Put(_ context.Context, tenant string, r io.Reader) (string, error) {
	s.mu.Lock()
	fail := s.fail
	s.mu.Unlock()
	if fail != nil {
		_, _ = r.Read(make([]byte, 10)) // fails in the middle of the content
		return "", fail
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil {
		return "", err
	}
	ref := fmt.Sprintf("cas://sha256:%x", sha256.Sum256(b.Bytes()))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts++
	s.content[tenant+"/"+ref] = b.String()
	return ref, nil
}

func (s *store) Open(_ context.Context, tenant, ref string) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.content[tenant+"/"+ref]
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, "open", "no dataset %q", ref)
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// get returns the stored rows of a result.
func (s *store) get(d *agent.Dataset) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.content["acme/"+d.Ref]
}

// results is a result cache whose entries do not expire.
type results struct {
	mu     sync.Mutex
	kept   map[string]tool.CachedResult
	ttl    time.Duration // of the last entry
	asked  int           // calls of Recall
	broken error         // returned by every call
}

func (c *results) Recall(_ context.Context, tenant, key string) (tool.CachedResult, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	r, ok := c.kept[tenant+"/"+key]
	return r, ok && c.broken == nil, c.broken
}

func (c *results) Remember(_ context.Context, tenant, key string, r tool.CachedResult, ttl time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return c.broken
	}
	if c.kept == nil {
		c.kept = map[string]tool.CachedResult{}
	}
	c.kept[tenant+"/"+key], c.ttl = r, ttl
	return nil
}

// authority adds a header with the names of the profiles.
type authority struct{ err error }

func (a *authority) Authorise(req *http.Request, profiles []agent.PlanAuth) error {
	for _, p := range profiles {
		req.Header.Add("X-Profile", p.Name)
	}
	return a.err
}
