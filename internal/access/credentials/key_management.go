package credentials

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// Bounds of what a key may be.
const (
	maxKeyName     = 128
	maxKeySubject  = 256
	maxKeyScopes   = 64
	maxKeyScope    = 256
	maxKeyFlags    = 4 << 10
	maxKeyLifetime = 10 * 365 * 24 * time.Hour
	maxKeyOverlap  = 30 * 24 * time.Hour
	maxKeysPage    = 500
)

// CreateKey makes a key. Nobody can make one that may do what he may not himself: every scope must be covered by one of his own, and the
// tenant be his. User and role are his to choose: to make keys is to say who is who. [agent.CodeDenied] with the field at fault.
func (k *Keys) CreateKey(ctx context.Context, by agent.Principal, r agent.KeyRequest) (agent.NewKey, error) {
	now := k.cfg.Now().UTC().Truncate(time.Millisecond)
	record := agent.APIKey{
		Tenant: r.Tenant, Name: r.Name, Subject: r.Subject, Role: r.Role, Flags: r.Flags, Scopes: slices.Clone(r.Scopes), CreatedAt: now, CreatedBy: by.By(),
	}
	if len(record.Scopes) == 0 {
		record.Scopes = agent.UserScopes()
	}
	if record.Tenant == "" {
		if record.Tenant = by.Tenant; by.Tenant == agent.AnyTenant || by.Tenant == "" {
			record.Tenant = agent.DefaultTenant
		}
	}
	if err := checkKey(&record); err != nil {
		return agent.NewKey{}, err
	}
	if r.ExpiresIn < 0 || r.ExpiresIn > maxKeyLifetime {
		return agent.NewKey{}, agent.Invalid("expires_in", "want at most %s, got %s", maxKeyLifetime, r.ExpiresIn)
	}
	if r.ExpiresIn > 0 {
		record.ExpiresAt = new(now.Add(r.ExpiresIn))
	}
	if err := mayGrant(&by, &record); err != nil {
		return agent.NewKey{}, err
	}
	return k.store(ctx, record)
}

func (k *Keys) store(ctx context.Context, record agent.APIKey) (agent.NewKey, error) {
	id, key := generateKey()
	record.ID = id
	if err := k.cfg.Store.CreateKey(ctx, record, hashKey(key)); err != nil {
		return agent.NewKey{}, err
	}
	k.forget(id)
	return agent.NewKey{APIKey: record, Key: key}, nil
}

// checkKey refuses what no key may be; the error names the field.
func checkKey(k *agent.APIKey) error {
	switch {
	case k.Tenant != agent.AnyTenant && !agent.ValidName(k.Tenant):
		return agent.Invalid("tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -, or *")
	case strings.TrimSpace(k.Name) == "":
		return agent.Invalid("name", "is empty: what is the key for?")
	case len(k.Scopes) > maxKeyScopes:
		return agent.Invalid("scopes", "are %d, at most %d", len(k.Scopes), maxKeyScopes)
	}
	for _, f := range []struct {
		field, text string
		most        int
	}{{"name", k.Name, maxKeyName}, {"subject", k.Subject, maxKeySubject}, {"role", k.Role, maxKeyName}} {
		if len(f.text) > f.most || strings.ContainsFunc(f.text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return agent.Invalid(f.field, "want at most %d bytes on one line", f.most)
		}
	}
	for _, scope := range k.Scopes {
		if len(scope) > maxKeyScope || !access.ValidScope(scope) {
			return agent.Invalid("scopes", "%.140q allows nothing that there is", scope)
		}
	}
	if flags, err := json.Marshal(k.Flags); err != nil || len(flags) > maxKeyFlags {
		return agent.Invalid("flags", "want an object of at most %d bytes", maxKeyFlags)
	}
	return nil
}

// mayGrant refuses a key that may do more than its maker.
func mayGrant(by *agent.Principal, k *agent.APIKey) error {
	if by.Trusted() {
		return nil
	}
	if by.Tenant != agent.AnyTenant && by.Tenant != k.Tenant {
		return agent.FieldErrorf(agent.CodeDenied, "tenant", "a credential of tenant %q makes no keys for %q", by.Tenant, k.Tenant)
	}
	for _, scope := range k.Scopes {
		if !by.Covers(scope) {
			return agent.FieldErrorf(agent.CodeDenied, "scopes", "%q is more than you may do yourself", scope)
		}
	}
	return nil
}

// RotateKey replaces a key by one of the same rights, whose end is as far off as the old one's was at first; the old one works until
// overlap has passed, or its own end. Whoever rotates learns the new key, so he needs all that it may do. A key is rotated once: of several
// callers at the same moment one has the new key, and the others [agent.CodeConflict], as has one who comes behind its revocation.
func (k *Keys) RotateKey(ctx context.Context, by agent.Principal, id string, overlap time.Duration) (agent.NewKey, error) {
	if overlap < 0 || overlap > maxKeyOverlap {
		return agent.NewKey{}, agent.Invalid("overlap", "want at most %s, got %s", maxKeyOverlap, overlap)
	}
	now := k.cfg.Now().UTC().Truncate(time.Millisecond)
	old, err := k.findVisible(ctx, &by, id)
	if err != nil {
		return agent.NewKey{}, err
	}
	switch {
	case old.RevokedAt != nil, old.ExpiresAt != nil && !now.Before(*old.ExpiresAt):
		return agent.NewKey{}, agent.Errorf(agent.CodeConflict, "", "the key has ended: make a new one")
	case old.ReplacedBy != "":
		return agent.NewKey{}, agent.Errorf(agent.CodeConflict, "", "the key was rotated before, into %s", old.ReplacedBy)
	}
	if err := mayGrant(&by, &old); err != nil {
		return agent.NewKey{}, err
	}
	next := old
	next.CreatedAt, next.CreatedBy, next.LastUsedAt = now, by.By(), nil
	end := now.Add(overlap)
	if old.ExpiresAt != nil {
		next.ExpiresAt = new(now.Add(old.ExpiresAt.Sub(old.CreatedAt)))
		if old.ExpiresAt.Before(end) {
			end = *old.ExpiresAt
		}
	}
	made, err := k.store(ctx, next)
	if err != nil {
		return agent.NewKey{}, err
	}
	if _, err := k.cfg.Store.ExpireKey(ctx, old.Tenant, old.ID, end, made.ID); err != nil {
		// Nobody has seen the new one: better none than one that nobody knows of.
		_, rerr := k.cfg.Store.RevokeKey(context.WithoutCancel(ctx), next.Tenant, made.ID, now)
		if rerr != nil {
			k.cfg.Logger.Error("a key that nobody has was left behind")
		}
		return agent.NewKey{}, err
	}
	k.forget(old.ID)
	return made, nil
}

// findVisible returns a key that the caller may see.
func (k *Keys) findVisible(ctx context.Context, by *agent.Principal, id string) (agent.APIKey, error) {
	if !validKeyID(id) {
		return agent.APIKey{}, noKey(id)
	}
	record, _, err := k.cfg.Store.KeyByID(ctx, id)
	if agent.CodeOf(err) == agent.CodeNotFound || (err == nil && !canSee(by, record.Tenant)) {
		return agent.APIKey{}, noKey(id)
	}
	return record, err
}

func canSee(by *agent.Principal, tenant string) bool {
	return by.Trusted() || by.Tenant == agent.AnyTenant || by.Tenant == tenant
}

func validKeyID(id string) bool {
	return len(id) == idLen && strings.Trim(id, idDigits) == ""
}

func noKey(id string) error {
	return agent.Errorf(agent.CodeNotFound, "", "there is no key %.60q", id)
}

// RevokeKey ends a key, here at once and elsewhere within seconds.
func (k *Keys) RevokeKey(ctx context.Context, by agent.Principal, id string) (agent.APIKey, error) {
	if !validKeyID(id) {
		return agent.APIKey{}, noKey(id)
	}
	tenant := by.Tenant
	if by.Trusted() {
		tenant = agent.AnyTenant
	}
	record, err := k.cfg.Store.RevokeKey(ctx, tenant, id, k.cfg.Now().UTC().Truncate(time.Millisecond))
	if agent.CodeOf(err) == agent.CodeNotFound {
		return agent.APIKey{}, noKey(id)
	}
	k.forget(id)
	return record, err
}

// ListKeys lists the keys of a tenant behind an id, by id, 500 at most.
func (k *Keys) ListKeys(ctx context.Context, tenant, after string, limit int) ([]agent.APIKey, error) {
	return k.cfg.Store.ListKeys(ctx, tenant, after, min(max(limit, 1), maxKeysPage))
}
