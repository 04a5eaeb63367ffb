package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access/accesstest"
)

func startKeys(t *testing.T) (*Keys, *accesstest.KeyStore, *accesstest.Clock) {
	t.Helper()
	store, c := &accesstest.KeyStore{}, accesstest.NewClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	k, err := NewKeys(KeysConfig{Store: store, Now: c.Now})
	require.NoError(t, err)
	t.Cleanup(func() {
		store.Fail(nil)
		require.NoError(t, k.Close(context.WithoutCancel(t.Context())))
	})
	return k, store, c
}

func operator() agent.Principal {
	return agent.Principal{Method: agent.MethodKey, Tenant: agent.AnyTenant, Scopes: []string{"*"}, Credential: "operator"}
}

func (k *Keys) make(t *testing.T, r agent.KeyRequest) agent.NewKey {
	t.Helper()
	if r.Name == "" {
		r.Name = "test"
	}
	made, err := k.CreateKey(t.Context(), operator(), r)
	require.NoError(t, err)
	return made
}

func requireRefused(t *testing.T, words string, err error) {
	t.Helper()
	require.Equal(t, agent.CodeUnauthenticated, agent.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, words)
}

// other replaces the digit at i by another, with a checksum that fits.
func other(key string, i int) string {
	b := []byte(key)
	b[i] = map[bool]byte{true: 'b', false: 'a'}[b[i] == 'a']
	body := string(b[:keyLen-checksumLen])
	return body + keyChecksum(body)
}

func TestKeyIsVerified(t *testing.T) {
	k, store, _ := startKeys(t)
	made := k.make(t, agent.KeyRequest{
		Tenant: "acme", Subject: "ann", Role: "clerk", Flags: map[string]any{"beta": true}, Scopes: []string{"turns.run:analyst"}, ExpiresIn: time.Hour,
	})
	require.Regexp(t, `^tsk_[a-z2-7]{16}_[0-9A-Za-z]{49}$`, made.Key)
	p, err := k.Verify(t.Context(), made.Key)
	require.NoError(t, err)
	require.Equal(t, agent.Principal{
		Method: agent.MethodKey, Tenant: "acme", Subject: "ann", Role: "clerk", Flags: map[string]any{"beta": true},
		Scopes: []string{"turns.run:analyst"}, Credential: "key/" + made.ID,
	}, p)
	require.Equal(t, "operator", made.CreatedBy)

	// The store has the hash, and no list shows it or the key.
	require.Equal(t, [][]byte{hashKey(made.Key)}, store.Hashes())
	list, err := k.ListKeys(t.Context(), "acme", "", 10)
	require.NoError(t, err)
	text, err := json.Marshal(list)
	require.NoError(t, err)
	require.NotContains(t, string(text), made.Key[21:40])
	require.NotContains(t, string(text), "hash")
}

func TestInvalidKeys(t *testing.T) {
	k, store, c := startKeys(t)
	made := k.make(t, agent.KeyRequest{Tenant: "acme", ExpiresIn: time.Hour})
	for name, wrong := range map[string]string{
		"empty": "", "prefix": "tsk_", "cut": made.Key[:len(made.Key)-1], "longer": made.Key + "a", "typo": made.Key[:30] + "!" + made.Key[31:],
		"swapped case": made.Key[:21] + strings.ToUpper(made.Key[21:]), "upper": strings.ToUpper(made.Key), "other prefix": "tsl_" + made.Key[4:],
		"id in capitals": made.Key[:4] + "A" + made.Key[5:], "NUL": made.Key[:40] + "\x00" + made.Key[41:],
	} {
		before := store.Lookups()
		_, err := k.Verify(t.Context(), wrong)
		requireRefused(t, "mistyped", err)
		require.Equal(t, before, store.Lookups(), "%s: the store was asked", name)
	}
	_, err := k.Verify(t.Context(), other(made.Key, 30))
	requireRefused(t, "not valid", err)
	_, err = k.Verify(t.Context(), other(made.Key, 5))
	requireRefused(t, "not valid", err)
	_, err = k.Verify(t.Context(), made.Key)
	require.NoError(t, err)

	c.Pass(time.Hour)
	_, err = k.Verify(t.Context(), made.Key)
	requireRefused(t, "expired", err)
	_, err = k.Verify(t.Context(), other(made.Key, 30))
	requireRefused(t, "not valid", err) // that it has expired is for who has it
}

func TestKeyRevocationWithinSeconds(t *testing.T) {
	store, c := &accesstest.KeyStore{}, accesstest.NewClock(time.Now())
	var all []*Keys
	for range 2 {
		k, err := NewKeys(KeysConfig{Store: store, Now: c.Now})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, k.Close(context.WithoutCancel(t.Context()))) })
		all = append(all, k)
	}
	made := all[0].make(t, agent.KeyRequest{Tenant: "acme"})
	for range 100 {
		for _, k := range all {
			_, err := k.Verify(t.Context(), made.Key)
			require.NoError(t, err)
		}
	}
	require.Equal(t, 2, store.Lookups(), "a hot key costs no query")

	_, err := all[0].RevokeKey(t.Context(), operator(), made.ID)
	require.NoError(t, err)
	_, err = all[0].Verify(t.Context(), made.Key)
	requireRefused(t, "revoked", err)
	c.Pass(keyTTL)
	_, err = all[1].Verify(t.Context(), made.Key)
	requireRefused(t, "revoked", err)
}

func TestUnknownKeysCostTheSame(t *testing.T) {
	k, store, c := startKeys(t)
	made := k.make(t, agent.KeyRequest{Tenant: "acme"})
	compare := k.compare
	comparisons, lengths := 0, map[int]bool{}
	k.compare = func(x, y []byte) int {
		comparisons++
		lengths[len(x)], lengths[len(y)] = true, true
		return compare(x, y)
	}
	cost := func(key string) [2]int {
		queries := store.Lookups()
		comparisons = 0
		_, err := k.Verify(t.Context(), key)
		requireRefused(t, "the API key is not valid", err)
		return [2]int{store.Lookups() - queries, comparisons}
	}
	unknown, wrong := other(made.Key, 5), other(made.Key, 30)
	for range 3 {
		require.Equal(t, [2]int{1, 1}, cost(unknown))
		require.Equal(t, [2]int{1, 1}, cost(wrong))
		require.Equal(t, [2]int{0, 1}, cost(unknown))
		require.Equal(t, [2]int{0, 1}, cost(wrong))
		c.Pass(keyTTL)
	}
	require.Equal(t, map[int]bool{32: true}, lengths)
}

func TestKeyStoreUnavailable(t *testing.T) {
	k, store, c := startKeys(t)
	made := k.make(t, agent.KeyRequest{Tenant: "acme"})
	_, err := k.Verify(t.Context(), made.Key)
	require.NoError(t, err)
	store.Fail(errors.New("connection refused by 10.0.0.7"))
	_, err = k.Verify(t.Context(), made.Key)
	require.NoError(t, err, "it was known a moment ago")
	c.Pass(keyTTL)
	_, err = k.Verify(t.Context(), made.Key)
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.NotContains(t, err.Error(), "10.0.0.7")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = k.Verify(ctx, made.Key)
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
	store.Fail(nil)
	_, err = k.Verify(t.Context(), made.Key)
	require.NoError(t, err)
}

func TestKeyUsesAreStoredInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &accesstest.KeyStore{}
		k, err := NewKeys(KeysConfig{Store: store})
		require.NoError(t, err)
		made := k.make(t, agent.KeyRequest{Tenant: "acme"})
		for range 50 {
			_, err := k.Verify(t.Context(), made.Key)
			require.NoError(t, err)
		}
		store.Fail(errors.New("away"))
		time.Sleep(keyFlushInterval + time.Second)
		synctest.Wait()
		require.Equal(t, 1, store.Touches())
		store.Fail(nil)
		time.Sleep(keyFlushInterval)
		synctest.Wait()
		require.Equal(t, 2, store.Touches(), "tried again")
		record, _, err := store.KeyByID(t.Context(), made.ID)
		require.NoError(t, err)
		require.NotNil(t, record.LastUsedAt)
		time.Sleep(2 * keyFlushInterval)
		synctest.Wait()
		require.Equal(t, 2, store.Touches(), "nothing to store")
		_, err = k.Verify(t.Context(), made.Key)
		require.NoError(t, err)
		require.NoError(t, k.Close(t.Context()))
		require.Equal(t, 3, store.Touches())
	})
}

func TestKeyRotation(t *testing.T) {
	k, _, c := startKeys(t)
	made := k.make(t, agent.KeyRequest{Tenant: "acme", Subject: "ann", Scopes: []string{"turns.*"}, ExpiresIn: 72 * time.Hour})
	c.Pass(time.Hour)
	next, err := k.RotateKey(t.Context(), operator(), made.ID, 24*time.Hour)
	require.NoError(t, err)
	require.NotEqual(t, made.ID, next.ID)
	require.Equal(t, "ann", next.Subject)
	require.Equal(t, []string{"turns.*"}, next.Scopes)
	require.Equal(t, c.Now().Add(72*time.Hour), *next.ExpiresAt, "as long as the first")
	for _, key := range []string{made.Key, next.Key} {
		_, err := k.Verify(t.Context(), key)
		require.NoError(t, err)
	}
	list, err := k.ListKeys(t.Context(), "acme", "", 10)
	require.NoError(t, err)
	require.Len(t, list, 2)
	for _, one := range list {
		if one.ID == made.ID {
			require.Equal(t, next.ID, one.ReplacedBy)
		}
	}
	_, err = k.RotateKey(t.Context(), operator(), made.ID, 0)
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err), "twice")
	c.Pass(24 * time.Hour)
	_, err = k.Verify(t.Context(), made.Key)
	requireRefused(t, "expired", err)
	_, err = k.Verify(t.Context(), next.Key)
	require.NoError(t, err)

	// The overlap lengthens no life.
	short := k.make(t, agent.KeyRequest{Tenant: "acme", ExpiresIn: time.Hour})
	_, err = k.RotateKey(t.Context(), operator(), short.ID, 24*time.Hour)
	require.NoError(t, err)
	c.Pass(time.Hour)
	_, err = k.Verify(t.Context(), short.Key)
	requireRefused(t, "expired", err)
	_, err = k.RotateKey(t.Context(), operator(), short.ID, time.Hour)
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
	_, err = k.RotateKey(t.Context(), operator(), next.ID, -time.Second)
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
}

// meanwhile is a store in which something else happens before a key is made.
type meanwhile struct {
	*accesstest.KeyStore

	happens func()
}

func (m *meanwhile) CreateKey(ctx context.Context, k agent.APIKey, hash []byte) error {
	if happens := m.happens; happens != nil {
		m.happens = nil
		happens()
	}
	return m.KeyStore.CreateKey(ctx, k, hash)
}

// TestConcurrentKeyRotations: one of two has the new key, and the key that the other made lets nobody in.
func TestConcurrentKeyRotations(t *testing.T) {
	for name, rival := range map[string]func(k *Keys, id string) error{
		"another rotation": func(k *Keys, id string) error {
			_, err := k.RotateKey(t.Context(), operator(), id, time.Hour)
			return err
		},
		"a revocation": func(k *Keys, id string) error {
			_, err := k.RevokeKey(t.Context(), operator(), id)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := &meanwhile{KeyStore: &accesstest.KeyStore{}}
			k, err := NewKeys(KeysConfig{Store: store})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, k.Close(context.WithoutCancel(t.Context()))) })
			made := k.make(t, agent.KeyRequest{Tenant: "acme", Scopes: []string{"turns.*"}})
			store.happens = func() { require.NoError(t, rival(k, made.ID)) }
			_, err = k.RotateKey(t.Context(), operator(), made.ID, time.Hour)
			require.Equal(t, agent.CodeConflict, agent.CodeOf(err), "%v", err)
			all, err := k.ListKeys(t.Context(), "acme", "", 10)
			require.NoError(t, err)
			alive := 0
			for _, one := range all {
				switch {
				case one.ID == made.ID:
				case one.RevokedAt == nil:
					alive++
					require.Equal(t, "another rotation", name)
				}
			}
			require.Equal(t, name == "another rotation", alive == 1, "%d keys of %d", alive, len(all))
		})
	}
}

func TestKeysGrantNoMoreThanTheirMaker(t *testing.T) {
	k, _, _ := startKeys(t)
	of := func(tenant string, scopes ...string) agent.Principal {
		return agent.Principal{Method: agent.MethodKey, Tenant: tenant, Scopes: scopes, Credential: "key/x"}
	}
	cases := []struct {
		name   string
		by     agent.Principal
		tenant string
		scopes []string
		field  string // empty: granted
	}{
		{"operator, everything", of("*", "*"), "*", []string{"*"}, ""},
		{"operator, a tenant", of("*", "*"), "acme", []string{"catalog.write"}, ""},
		{"nobody is asked", agent.Principal{Method: agent.MethodNone, Tenant: "*"}, "*", []string{"*"}, ""},
		{"admin of a tenant", of("acme", "*"), "acme", []string{"*"}, ""},
		{"defaults", of("acme", "*"), "acme", nil, ""},
		{"defaults that one does not have", of("acme", "keys.*", "turns.*"), "acme", nil, "scopes"},
		{"another tenant", of("acme", "*"), "other", []string{"turns.run"}, "tenant"},
		{"every tenant", of("acme", "*"), "*", []string{"turns.run"}, "tenant"},
		{"all of a family", of("acme", "turns.*"), "acme", []string{"turns.run", "turns.*", "turns.run:analyst"}, ""},
		{"a family for its members", of("acme", "turns.run", "turns.read", "turns.cancel"), "acme", []string{"turns.*"}, "scopes"},
		{"everything for a family", of("acme", "turns.*"), "acme", []string{"*"}, "scopes"},
		{"another family", of("acme", "keys.*"), "acme", []string{"turns.run"}, "scopes"},
		{"one of several", of("acme", "turns.*"), "acme", []string{"turns.run", "keys.write"}, "scopes"},
		{"a resource", of("acme", "turns.run:analyst"), "acme", []string{"turns.run:analyst"}, ""},
		{"another resource", of("acme", "turns.run:analyst"), "acme", []string{"turns.run:clerk"}, "scopes"},
		{"unconfined", of("acme", "turns.run:analyst"), "acme", []string{"turns.run"}, "scopes"},
		{"a pattern for a resource", of("acme", "turns.run:analyst"), "acme", []string{"turns.run:analyst*"}, "scopes"},
		{"within a pattern", of("acme", "turns.run:an*"), "acme", []string{"turns.run:an*", "turns.run:ana*", "turns.run:an"}, ""},
		{"a wider pattern", of("acme", "turns.run:an*"), "acme", []string{"turns.run:a*"}, "scopes"},
		{"any resource", of("acme", "turns.run:*"), "acme", []string{"turns.run"}, ""},
		{"family confined", of("acme", "turns.*:analyst"), "acme", []string{"turns.read:analyst"}, ""},
		{"family confined, wider", of("acme", "turns.*:analyst"), "acme", []string{"turns.read"}, "scopes"},
		{"the runtime's own method", of("acme"), "acme", []string{"turns.run"}, "scopes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := k.CreateKey(t.Context(), c.by, agent.KeyRequest{Name: "x", Tenant: c.tenant, Scopes: c.scopes})
			// To rotate a key is to learn one.
			made := k.make(t, agent.KeyRequest{Tenant: c.tenant, Scopes: c.scopes})
			_, rotated := k.RotateKey(t.Context(), c.by, made.ID, 0)
			if c.field == "" {
				require.NoError(t, err)
				require.NoError(t, rotated)
				return
			}
			var e *agent.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, agent.CodeDenied, e.Code)
			require.Equal(t, c.field, e.Field)
			if c.field == "tenant" {
				_, unknown := k.RotateKey(t.Context(), c.by, strings.Repeat("a", idLen), 0)
				require.Equal(t, agent.CodeNotFound, agent.CodeOf(rotated))
				require.Equal(t, strings.ReplaceAll(unknown.Error(), strings.Repeat("a", idLen), made.ID), rotated.Error())
				_, revoked := k.RevokeKey(t.Context(), c.by, made.ID)
				require.Equal(t, rotated.Error(), revoked.Error())
				return
			}
			require.Equal(t, agent.CodeDenied, agent.CodeOf(rotated))
		})
	}
}

func TestKeyFields(t *testing.T) {
	k, _, _ := startKeys(t)
	for field, r := range map[string]agent.KeyRequest{
		"name": {Name: " "}, "tenant": {Name: "x", Tenant: "a b"}, "scopes": {Name: "x", Scopes: []string{"turn.run"}},
		"expires_in": {Name: "x", ExpiresIn: -1}, "subject": {Name: "x", Subject: "a\nb"}, "role": {Name: "x", Role: strings.Repeat("x", 200)},
		"flags": {Name: "x", Flags: map[string]any{"x": strings.Repeat("x", 5000)}},
	} {
		_, err := k.CreateKey(t.Context(), operator(), r)
		var e *agent.Error
		require.ErrorAs(t, err, &e, field)
		require.Equal(t, field, e.Field)
		require.Equal(t, agent.CodeInvalid, e.Code)
	}
	_, err := k.CreateKey(t.Context(), operator(), agent.KeyRequest{Name: "x", Scopes: make([]string, 65)})
	require.ErrorContains(t, err, "at most 64")
	_, err = k.CreateKey(t.Context(), operator(), agent.KeyRequest{Name: "x", ExpiresIn: 20 * 365 * 24 * time.Hour})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	for _, id := range []string{"", "x", "../../etc/passwd", strings.Repeat("A", idLen)} {
		_, err := k.RevokeKey(t.Context(), operator(), id)
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), id)
	}
	made := k.make(t, agent.KeyRequest{})
	require.Equal(t, agent.DefaultTenant, made.Tenant)
	require.Equal(t, agent.UserScopes(), made.Scopes)
}

func FuzzParseKey(f *testing.F) {
	id, key := generateKey()
	require.Len(f, id, idLen)
	for _, seed := range []string{"", "tsk_", key, key[:20], key + key, strings.ToUpper(key), "tsk_\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := parseKey(text)
		if !ok {
			return
		}
		require.Len(t, text, keyLen)
		require.True(t, validKeyID(id))
		require.True(t, strings.HasPrefix(text, "tsk_"+id+"_"))
		require.Equal(t, text[keyLen-checksumLen:], keyChecksum(text[:keyLen-checksumLen]))
		for i := range text { // every other character is noticed
			for _, c := range []byte{'0', 'z'} {
				if text[i] != c {
					_, ok := parseKey(text[:i] + string(c) + text[i+1:])
					require.False(t, ok, "%d", i)
				}
			}
		}
	})
}
