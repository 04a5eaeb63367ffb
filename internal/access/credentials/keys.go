package credentials

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// KeyStore keeps the keys. A tenant sees its own keys, [agent.AnyTenant] all; any other key is [agent.CodeNotFound].
type KeyStore interface {
	// CreateKey stores a key; [agent.CodeConflict] if the id exists.
	CreateKey(ctx context.Context, k agent.APIKey, hash []byte) error
	// KeyByID returns a key of any tenant with its hash; [agent.CodeNotFound] if there is none.
	KeyByID(ctx context.Context, id string) (agent.APIKey, []byte, error)
	// ListKeys lists the keys after an id, by id.
	ListKeys(ctx context.Context, tenant, after string, limit int) ([]agent.APIKey, error)
	// RevokeKey revokes a key. One that was revoked before stays unchanged.
	RevokeKey(ctx context.Context, tenant, id string, at time.Time) (agent.APIKey, error)
	// ExpireKey sets the end of a key and the key that replaces it; [agent.CodeConflict] if it was revoked, or another key replaces it: of
	// two rotations at the same time one wins.
	ExpireKey(ctx context.Context, tenant, id string, at time.Time, replacedBy string) (agent.APIKey, error)
	// TouchKeys stores when keys were last used.
	TouchKeys(ctx context.Context, used map[string]time.Time) error
}

// KeysConfig is what [NewKeys] needs.
type KeysConfig struct {
	Store  KeyStore // required
	Logger *zap.Logger
	Now    func() time.Time // nil: the real clock
}

const (
	keyTTL           = 3 * time.Second  // of a cached key: a revocation takes effect within this time
	keyFlushInterval = 30 * time.Second // between writes of when keys were last used
	keyFlushTimeout  = 10 * time.Second
	maxCachedKeys    = 10_000 // of known keys, and of unknown ids
	maxUsedKeys      = 50_000 // keys whose use is not stored yet
)

// Keys makes and verifies API keys. A key is shown once; the store keeps its hash. Close it.
type Keys struct {
	cfg     KeysConfig
	known   *lru.Cache[string, cachedKey]
	unknown *lru.Cache[string, time.Time] // when an id was looked up
	// compare is [subtle.ConstantTimeCompare]; a test counts its calls.
	compare func(x, y []byte) int

	mu   sync.Mutex
	used map[string]time.Time

	stop    chan struct{}
	closing sync.Once
	done    chan struct{}
}

type cachedKey struct {
	key  agent.APIKey
	hash []byte
	at   time.Time
}

// NewKeys returns Keys, which store uses of keys in the background until Close.
func NewKeys(cfg KeysConfig) (*Keys, error) {
	if cfg.Store == nil {
		return nil, errors.New("configure API keys: the store is missing")
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	known, err := lru.New[string, cachedKey](maxCachedKeys)
	if err != nil {
		return nil, fmt.Errorf("configure API keys: %w", err)
	}
	unknown, err := lru.New[string, time.Time](maxCachedKeys)
	if err != nil {
		return nil, fmt.Errorf("configure API keys: %w", err)
	}
	k := &Keys{
		cfg: cfg, known: known, unknown: unknown, compare: subtle.ConstantTimeCompare, used: map[string]time.Time{},
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go k.flushRegularly()
	return k, nil
}

// Verify implements [access.Verifier].
func (k *Keys) Verify(ctx context.Context, key string) (agent.Principal, error) {
	id, ok := parseKey(key)
	if !ok {
		return agent.Principal{}, access.Refused("the API key is mistyped, or was not copied whole")
	}
	given := hashKey(key)
	record, hash, err := k.find(ctx, id)
	if err != nil {
		return agent.Principal{}, err
	}
	// The same comparison whether or not the key exists, so that neither the error nor the time tells which ids do.
	if k.compare(given, hash) != 1 || record.ID == "" {
		return agent.Principal{}, access.Refused("the API key is not valid")
	}
	now := k.cfg.Now()
	switch {
	case record.RevokedAt != nil: // whatever the clocks of two machines say
		return agent.Principal{}, access.Refused("the API key was revoked")
	case record.ExpiresAt != nil && !now.Before(*record.ExpiresAt):
		return agent.Principal{}, access.Refused("the API key has expired")
	}
	k.touch(id, now)
	return record.Principal(), nil
}

// find returns a key and its hash. The key of an unknown id has no id, and a hash that no key has.
func (k *Keys) find(ctx context.Context, id string) (agent.APIKey, []byte, error) {
	nobody := make([]byte, sha256.Size)
	now := k.cfg.Now()
	if e, ok := k.known.Get(id); ok && now.Sub(e.at) < keyTTL {
		return e.key, e.hash, nil
	}
	if at, ok := k.unknown.Get(id); ok && now.Sub(at) < keyTTL {
		return agent.APIKey{}, nobody, nil
	}
	record, hash, err := k.cfg.Store.KeyByID(ctx, id)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		k.known.Remove(id)
		k.unknown.Add(id, now)
		return agent.APIKey{}, nobody, nil
	case ctx.Err() != nil:
		return agent.APIKey{}, nil, agent.Interrupted(ctx, "verify API key")
	case err != nil:
		k.cfg.Logger.Error("look up API key", zap.Error(err))
		return agent.APIKey{}, nil, agent.Errorf(agent.CodeUnavailable, "", "API keys cannot be verified now: try again")
	}
	k.known.Add(id, cachedKey{key: record, hash: hash, at: now})
	return record, hash, nil
}

// forget removes a key from the cache.
func (k *Keys) forget(id string) {
	k.known.Remove(id)
	k.unknown.Remove(id)
}

func (k *Keys) touch(id string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.used[id]; ok || len(k.used) < maxUsedKeys {
		k.used[id] = now
	}
}

// flushRegularly calls flush at intervals until Close.
func (k *Keys) flushRegularly() {
	defer close(k.done)
	tick := time.NewTicker(keyFlushInterval)
	defer tick.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(context.Background(), keyFlushTimeout)
			if err := k.flush(ctx); err != nil {
				k.cfg.Logger.Warn("store when API keys were used", zap.Error(err))
			}
			cancel()
		}
	}
}

// flush stores when keys were used. If that fails, the times are kept for the next flush.
func (k *Keys) flush(ctx context.Context) error {
	k.mu.Lock()
	used := k.used
	k.used = map[string]time.Time{}
	k.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	err := k.cfg.Store.TouchKeys(ctx, used)
	if err == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, at := range used {
		if later, ok := k.used[id]; (!ok && len(k.used) < maxUsedKeys) || (ok && at.After(later)) {
			k.used[id] = at
		}
	}
	return fmt.Errorf("touch %d API keys: %w", len(used), err)
}

// Close stores the uses that are not stored yet.
func (k *Keys) Close(ctx context.Context) error {
	k.closing.Do(func() { close(k.stop) })
	<-k.done
	return k.flush(ctx)
}
