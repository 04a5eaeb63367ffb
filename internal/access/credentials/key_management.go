package credentials

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// Bounds of a key; texts in bytes.
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

// CreateKey makes a key. It cannot allow more than its maker may do: each scope must be covered by one of the maker's, and the tenant must be the
// maker's. The maker chooses user and role freely. The error is [agent.CodeDenied] with the field otherwise.
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

// checkKey checks the fields of a key; the error names the field.
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
		maxBytes    int
	}{{"name", k.Name, maxKeyName}, {"subject", k.Subject, maxKeySubject}, {"role", k.Role, maxKeyName}} {
		if len(f.text) > f.maxBytes || strings.ContainsFunc(f.text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return agent.Invalid(f.field, "want at most %d bytes on one line", f.maxBytes)
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

// mayGrant returns an error if a key allows more than its maker may do.
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

// RotateKey replaces a key by one with the same rights and the same lifetime. The old key works until overlap has passed, or until its own end if
// that is sooner. The caller must be allowed all that the key allows, because he learns the new one. A key is rotated once: of several
// concurrent calls one returns the new key, and the others [agent.CodeConflict], also if the key was revoked meanwhile.
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
	return k.replace(ctx, &old, by.By(), now, now.Add(overlap))
}

// replace stores the successor of a key, and ends the key at a time or at its own end. If the key cannot be ended, the successor is revoked.
func (k *Keys) replace(ctx context.Context, old *agent.APIKey, by string, now, end time.Time) (agent.NewKey, error) {
	next := *old
	next.CreatedAt, next.CreatedBy, next.LastUsedAt = now, by, nil
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
		if _, revokeErr := k.cfg.Store.RevokeKey(context.WithoutCancel(ctx), next.Tenant, made.ID, now); revokeErr != nil {
			k.cfg.Logger.Error("revoke a new API key that nobody has seen", zap.String("key", made.ID), zap.Error(revokeErr))
		}
		return agent.NewKey{}, err
	}
	k.forget(old.ID)
	return made, nil
}

// findVisible returns a key that the caller may see.
func (k *Keys) findVisible(ctx context.Context, by *agent.Principal, id string) (agent.APIKey, error) {
	if !validKeyID(id) {
		return agent.APIKey{}, unknownKey(id)
	}
	record, _, err := k.cfg.Store.KeyByID(ctx, id)
	if agent.CodeOf(err) == agent.CodeNotFound || (err == nil && !canSee(by, record.Tenant)) {
		return agent.APIKey{}, unknownKey(id)
	}
	return record, err
}

func canSee(by *agent.Principal, tenant string) bool {
	return by.Trusted() || by.Tenant == agent.AnyTenant || by.Tenant == tenant
}

func validKeyID(id string) bool {
	return len(id) == idLen && strings.Trim(id, idDigits) == ""
}

func unknownKey(id string) error {
	return agent.Errorf(agent.CodeNotFound, "", "there is no key %.60q", id)
}

// RevokeKey ends a key: in this process at once, in others within seconds.
func (k *Keys) RevokeKey(ctx context.Context, by agent.Principal, id string) (agent.APIKey, error) {
	if !validKeyID(id) {
		return agent.APIKey{}, unknownKey(id)
	}
	tenant := by.Tenant
	if by.Trusted() {
		tenant = agent.AnyTenant
	}
	record, err := k.cfg.Store.RevokeKey(ctx, tenant, id, k.cfg.Now().UTC().Truncate(time.Millisecond))
	if agent.CodeOf(err) == agent.CodeNotFound {
		return agent.APIKey{}, unknownKey(id)
	}
	k.forget(id)
	return record, err
}

// ListKeys lists the keys of a tenant after an id, by id, at most 500.
func (k *Keys) ListKeys(ctx context.Context, tenant, after string, limit int) ([]agent.APIKey, error) {
	return k.cfg.Store.ListKeys(ctx, tenant, after, min(max(limit, 1), maxKeysPage))
}
