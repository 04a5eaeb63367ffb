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

// The bounds of the caches of a process.
const (
	listingAge     = 2 * time.Second
	cachedListings = 1_000 // tenants
	cachedRecipes  = 1_000 // versions of composites
)

// kindComposite is the kind of a composite in [agent.ListedTool].
const kindComposite = "composite"

// listings caches, for two seconds, which composites each tenant has enabled.
type listings struct {
	store  tool.Composites
	mu     sync.Mutex
	cached *lru.Cache[string, listing]
}

type listing struct {
	at          time.Time         // when the store was asked, or the listing was invalidated
	invalidated bool              // answers to earlier requests are out of date
	list        []agent.Composite // shared: callers must not change it
}

func newListings(store tool.Composites) *listings {
	cached, _ := lru.New[string, listing](cachedListings) // fails only for a size below 1
	return &listings{store: store, cached: cached}
}

// listEnabled returns the composites that a tenant has enabled.
func (l *listings) listEnabled(ctx context.Context, tenant string) ([]agent.Composite, error) {
	asked := time.Now()
	if cached, ok := l.cached.Get(tenant); ok && !cached.invalidated && asked.Sub(cached.at) < listingAge {
		return cached.list, nil
	}
	list, err := l.store.Composites(ctx, tenant)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(c agent.Composite) bool { return !c.Enabled })
	l.cache(tenant, listing{at: asked, list: list})
	return list, nil
}

// cache caches a listing, unless it was invalidated meanwhile or a later one is cached.
func (l *listings) cache(tenant string, made listing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, ok := l.cached.Peek(tenant); !ok || !made.at.Before(other.at) {
		l.cached.Add(tenant, made)
	}
}

// invalidate makes the next listing of a tenant ask the store, because this process has just changed it.
func (l *listings) invalidate(tenant string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cached.Add(tenant, listing{at: time.Now(), invalidated: true})
}

// composites lists and finds the composites of all tenants.
type composites struct {
	store    tool.Composites
	listings *listings
	execute  *executeTool
	recipes  *lru.Cache[string, *recipe] // by tenant and handle; a version never changes
}

func newComposites(store tool.Composites, l *listings, e *executeTool) *composites {
	recipes, _ := lru.New[string, *recipe](cachedRecipes) // fails only for a size below 1
	return &composites{store: store, listings: l, execute: e, recipes: recipes}
}

func (c *composites) list(ctx context.Context, tenant string) ([]agent.ListedTool, error) {
	all, err := c.listings.listEnabled(ctx, tenant)
	if err != nil {
		return nil, storeError("list composites", err)
	}
	listed := make([]agent.ListedTool, 0, len(all))
	for i := range all {
		r, err := readRecipe(&all[i])
		if err != nil {
			c.execute.promoter.logError("read composite "+all[i].ID, err)
			continue
		}
		t := &composite{execute: c.execute, recipe: r, name: all[i].Name, description: all[i].Description}
		listed = append(listed, agent.ListedTool{Spec: t.Spec(), Handle: handleOf(&all[i]), Kind: kindComposite})
	}
	return listed, nil
}

func (c *composites) find(ctx context.Context, tenant, name, handle string) (agent.Tool, error) {
	key := tenant + "\x00" + handle
	if r, ok := c.recipes.Get(key); ok {
		return &composite{execute: c.execute, recipe: r, name: name, description: r.description}, nil
	}
	id, version, ok := parseHandle(handle)
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, "find tool", "there is no composite %q: its handle is %.100q", name, handle)
	}
	stored, err := c.store.Composite(ctx, tenant, id, version)
	if err != nil {
		return nil, storeError(fmt.Sprintf("find composite %q", name), err)
	}
	r, err := readRecipe(&stored)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "find tool", "read composite %q: %w", name, err)
	}
	c.recipes.Add(key, r)
	return &composite{execute: c.execute, recipe: r, name: name, description: r.description}, nil
}

// handleOf returns the handle of a version of a composite: <id>@<version>.
func handleOf(c *agent.Composite) string { return c.ID + "@" + strconv.FormatInt(c.Version, 10) }

func parseHandle(handle string) (id string, version int64, ok bool) {
	at := strings.LastIndexByte(handle, '@')
	if at < 1 {
		return "", 0, false
	}
	version, err := strconv.ParseInt(handle[at+1:], 10, 64)
	return handle[:at], version, err == nil && version > 0
}

// storeError adds op to an error of the store. An error without a code becomes unavailable.
func storeError(op string, err error) error {
	if _, coded := errors.AsType[*agent.Error](err); coded {
		return fmt.Errorf("%s: %w", op, err)
	}
	return agent.Errorf(agent.CodeUnavailable, op, "%w", err)
}
