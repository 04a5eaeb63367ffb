package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The bounds of what a process keeps of composites.
const (
	listingAge   = 2 * time.Second
	keptListings = 1_000 // tenants
	keptTools    = 1_000 // versions
)

// kindComposite is the kind of our tools, for searches.
const kindComposite = "composite"

// listings caches, for two seconds, which composites each tenant has enabled.
type listings struct {
	store tool.Composites
	mu    sync.Mutex
	kept  *lru.Cache[string, listing]
}

type listing struct {
	at        time.Time         // when the store was asked, or the listing was invalidated
	forgotten bool              // answers that were asked for before are out of date
	list      []agent.Composite // not to be changed
}

func newListings(store tool.Composites) *listings {
	kept, _ := lru.New[string, listing](keptListings) // fails for a size below 1 alone
	return &listings{store: store, kept: kept}
}

// listEnabled returns the composites that a tenant has enabled.
func (l *listings) listEnabled(ctx context.Context, tenant string) ([]agent.Composite, error) {
	asked := time.Now()
	if kept, ok := l.kept.Get(tenant); ok && !kept.forgotten && asked.Sub(kept.at) < listingAge {
		return kept.list, nil
	}
	list, err := l.store.Composites(ctx, tenant)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(c agent.Composite) bool { return !c.Enabled })
	l.keep(tenant, listing{at: asked, list: list})
	return list, nil
}

// keep caches a listing unless it was invalidated meanwhile, or a later one is cached.
func (l *listings) keep(tenant string, made listing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, ok := l.kept.Peek(tenant); !ok || !made.at.Before(other.at) {
		l.kept.Add(tenant, made)
	}
}

// forget invalidates a tenant's listing, so that the next one has what this process has just promoted.
func (l *listings) forget(tenant string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept.Add(tenant, listing{at: time.Now(), forgotten: true})
}

// composites are the toolkit's tools that were made of pipelines.
type composites struct {
	store   tool.Composites
	lists   *listings
	execute *execute
	kept    *lru.Cache[string, *recipe] // a version never changes
}

func newComposites(store tool.Composites, lists *listings, e *execute) *composites {
	kept, _ := lru.New[string, *recipe](keptTools) // fails for a size below 1 alone
	return &composites{store: store, lists: lists, execute: e, kept: kept}
}

func (c *composites) list(ctx context.Context, tenant string) ([]agent.ListedTool, error) {
	all, err := c.lists.listEnabled(ctx, tenant)
	if err != nil {
		return nil, unavailable("list composites", err)
	}
	listed := make([]agent.ListedTool, 0, len(all))
	for i := range all {
		r, err := readRecipe(&all[i])
		if err != nil {
			c.execute.uses.log("read composite "+all[i].ID, err)
			continue
		}
		t := &composite{execute: c.execute, recipe: r, name: all[i].Name, description: all[i].Description}
		listed = append(listed, agent.ListedTool{Spec: t.Spec(), Handle: handleOf(&all[i]), Kind: kindComposite})
	}
	return listed, nil
}

func (c *composites) find(ctx context.Context, tenant, name, handle string) (agent.Tool, error) {
	key := tenant + "\x00" + handle
	if r, ok := c.kept.Get(key); ok {
		return &composite{execute: c.execute, recipe: r, name: name, description: r.description}, nil
	}
	id, version, ok := readHandle(handle)
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, "find tool", "there is no composite %q: its handle is %.100q", name, handle)
	}
	stored, err := c.store.Composite(ctx, tenant, id, version)
	if err != nil {
		return nil, unavailable(fmt.Sprintf("find composite %q", name), err)
	}
	r, err := readRecipe(&stored)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "find tool", "read composite %q: %w", name, err)
	}
	c.kept.Add(key, r)
	return &composite{execute: c.execute, recipe: r, name: name, description: r.description}, nil
}

// handleOf says which version of a composite a turn has: <id>@<version>.
func handleOf(c *agent.Composite) string { return c.ID + "@" + strconv.FormatInt(c.Version, 10) }

func readHandle(handle string) (id string, version int64, ok bool) {
	at := strings.LastIndexByte(handle, '@')
	if at < 1 {
		return "", 0, false
	}
	version, err := strconv.ParseInt(handle[at+1:], 10, 64)
	return handle[:at], version, err == nil && version > 0
}

// unavailable gives an error of a store a code that says that it may be better later, unless it has one.
func unavailable(op string, err error) error {
	if _, coded := errors.AsType[*agent.Error](err); coded {
		return fmt.Errorf("%s: %w", op, err)
	}
	return agent.Errorf(agent.CodeUnavailable, op, "%w", err)
}
