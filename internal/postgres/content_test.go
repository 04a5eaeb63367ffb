package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// holders lists the holders of a reference.
func (b *bench) holders(tenant, ref string) []string {
	b.t.Helper()
	return column[string](b, `SELECT holder FROM blob_refs WHERE tenant = $1 AND 'cas://sha256:' || digest = $2 ORDER BY holder`, tenant, ref)
}

// age makes all content two hours older, which is more than the grace period.
func (b *bench) age() {
	b.t.Helper()
	b.exec(`UPDATE blobs SET put_at = put_at - interval '2 hours'`)
}

func (b *bench) recordPut(tenant, ref string) {
	b.t.Helper()
	require.NoError(b.t, b.RecordPut(b.t.Context(), tenant, ref, 10))
}

func (b *bench) release(tenant, ref string) bool {
	b.t.Helper()
	released, err := b.Release(b.t.Context(), tenant, ref)
	require.NoError(b.t, err)
	return released
}

// All rows that contain a reference hold the content, from the transaction that stores them until the one that deletes them.
func TestReferencesHoldContent(t *testing.T) {
	shared := newBench(t, postgres.Config{})
	ref := cas("a")
	escaped := json.RawMessage(`{"ref":"` + strings.ReplaceAll(ref, "/", `\/`) + `"}`)
	step := func(change func(s *agent.ToolStep)) func(t *testing.T, b *bench) {
		return func(t *testing.T, b *bench) {
			b.ready("t1", "s")
			s := toolStep("t1", 1, "c1", 1)
			change(&s)
			require.NoError(t, b.SaveToolStep(t.Context(), s))
		}
	}
	for name, keep := range map[string]func(t *testing.T, b *bench){
		"input": func(_ *testing.T, b *bench) {
			r := turn("t1", "s")
			r.Input = []agent.Message{agent.UserText("sort " + ref + ", please")}
			b.begin(r)
		},
		"context of a job": func(_ *testing.T, b *bench) {
			r := turn("t1", "s")
			r.Context.Metadata = map[string]any{agent.MetaPreviousResults: []any{map[string]any{"result_ref": ref}}}
			b.begin(r)
		},
		"waiting": func(_ *testing.T, b *bench) {
			b.ready("t0", "s")
			r := turn("t1", "s")
			r.Input = []agent.Message{agent.UserText(ref)}
			b.begin(r)
		},
		"reply": func(t *testing.T, b *bench) {
			b.ready("t1", "s")
			require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, agent.Text("see "+ref))))
		},
		"feedback": func(t *testing.T, b *bench) {
			b.ready("t1", "s")
			m := modelStep("t1", 1, 1, agent.Text("x"))
			m.Feedback = "not " + ref
			require.NoError(t, b.SaveModelStep(t.Context(), m))
		},
		"output":        step(func(s *agent.ToolStep) { s.Result.Ref = ref }),
		"verdict":       step(func(s *agent.ToolStep) { s.Verdict.Ref = ref }),
		"arguments":     step(func(s *agent.ToolStep) { s.Args = escaped }),
		"data":          step(func(s *agent.ToolStep) { s.Data = json.RawMessage(`[{"of":"` + ref + `"}]`) }),
		"preview":       step(func(s *agent.ToolStep) { s.Preview = json.RawMessage(`["` + ref + `"]`) }),
		"dataset":       step(func(s *agent.ToolStep) { s.Dataset = &agent.Dataset{Ref: ref} }),
		"a nul as well": step(func(s *agent.ToolStep) { s.Data = json.RawMessage(`["\u0000 \ud800 ` + ref + `"]`) }),
		"preparation": func(t *testing.T, b *bench) {
			b.ready("t1", "s")
			require.NoError(t, b.SavePrepared(t.Context(), agent.Prepared{TurnID: "t1", Tenant: tenant, Query: ref}))
		},
		"edited arguments": func(t *testing.T, b *bench) {
			b.ready("t1", "s")
			b.ask(approval("a1"))
			_, err := b.ResolveApproval(t.Context(), "t1", agent.Decision{ApprovalID: "a1", Decision: agent.DecisionEdit, By: "ops", Args: escaped})
			require.NoError(t, err)
		},
		"result": func(_ *testing.T, b *bench) {
			b.ready("t1", "s")
			f := finish("t1", "s")
			f.CASID = strings.TrimPrefix(ref, "cas://")
			b.finish(f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{Store: shared.Store, t: t, pool: shared.pool}
			b.recordPut(tenant, ref)
			keep(t, b)
			require.Equal(t, []string{"turn/t1"}, b.holders(tenant, ref))
			require.Empty(t, b.holders("evil", ref))
			b.age()
			require.False(t, b.release(tenant, ref))

			for _, id := range []string{"t0", "t1"} {
				b.finish(finish(id, "s"))
			}
			require.False(t, b.release(tenant, ref), "the turn has ended but still exists")
			_, err := b.DeleteSession(t.Context(), tenant, "s")
			require.NoError(t, err)
			require.Empty(t, b.holders(tenant, ref))
			require.True(t, b.release(tenant, ref))
			require.Zero(t, b.count("blobs")+b.count("blob_refs"))
		})
	}
}

func TestNotesHoldContent(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	note := func(name, body string) {
		t.Helper()
		require.NoError(t, b.SetNote(t.Context(), tenant, "s", name, json.RawMessage(body)))
	}
	note("n", `["`+cas("a")+`","`+cas("b")+`"]`)
	note("other", `"`+cas("b")+`"`)
	require.Equal(t, []string{"note/s/n"}, b.holders(tenant, cas("a")))
	require.Equal(t, []string{"note/s/n", "note/s/other"}, b.holders(tenant, cas("b")))
	note("n", `"`+cas("c")+`"`)
	require.Empty(t, b.holders(tenant, cas("a")))
	require.Equal(t, []string{"note/s/other"}, b.holders(tenant, cas("b")))
	require.Equal(t, []string{"note/s/n"}, b.holders(tenant, cas("c")))
	b.finish(finish("t1", "s"))
	b.deleteSession("s")
	require.Zero(t, b.count("blob_refs"))
}

func TestMalformedReferencesHoldNothing(t *testing.T) {
	b := newBench(t, postgres.Config{})
	r := turn("t1", "s")
	r.PlanHash = "sha256:" + strings.Repeat("a", 64) // the hash of a plan is not a reference
	r.Input = []agent.Message{agent.UserText("sha256:" + strings.Repeat("b", 64) + " " + cas("c")[:70] + " cas://sha256:" + strings.Repeat("D", 64))}
	b.begin(r)
	require.Zero(t, b.count("blob_refs"))
}

// A step that is refused leaves no reference.
func TestRefusedStepsHoldNothing(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	b.finish(finish("t1", "s"))
	s := toolStep("t1", 1, "c1", 1)
	s.Result.Ref = cas("a")
	require.ErrorIs(t, b.SaveToolStep(t.Context(), s), agent.ErrFenced)
	require.Zero(t, b.count("blob_refs"))
}

func TestRelease(t *testing.T) {
	b := newBench(t, postgres.Config{})
	require.True(t, b.release(tenant, cas("a")), "the content is unknown")
	b.recordPut(tenant, cas("a"))
	b.recordPut("evil", cas("a"))
	require.False(t, b.release(tenant, cas("a")), "it was just stored")
	b.age()
	b.recordPut(tenant, cas("a"))
	require.False(t, b.release(tenant, cas("a")), "it was stored again")
	require.True(t, b.release("evil", cas("a")))
	b.age()
	require.True(t, b.release(tenant, cas("a")))
	require.Zero(t, b.count("blobs"))

	r := turn("t1", "s")
	r.Input = []agent.Message{agent.UserText(cas("a"))}
	b.begin(r)
	require.False(t, b.release(tenant, cas("a")), "it is referred to, although it is unknown")

	for _, bad := range []string{"", "cas://sha256:", "artifact://x", cas("a") + "0", cas("A")} {
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(b.RecordPut(t.Context(), tenant, bad, 1)), "%q", bad)
		_, err := b.Release(t.Context(), tenant, bad)
		requireCode(t, agent.CodeInvalid, err)
		_, err = b.Adopt(t.Context(), []postgres.StoredBlob{{Tenant: tenant, Ref: bad}})
		requireCode(t, agent.CodeInvalid, err)
	}
}

// A RecordPut while the content is being released keeps the content.
func TestReleaseSeesAPutThatItWaitedFor(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.recordPut(tenant, cas("a"))
	b.age()
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), `UPDATE blobs SET put_at = clock_timestamp()`)
	require.NoError(t, err)
	answer := make(chan bool, 1)
	go func() {
		released, err := b.Release(t.Context(), tenant, cas("a"))
		if err != nil {
			t.Error(err)
		}
		answer <- released
	}()
	b.awaitWaiting(1)
	require.NoError(t, tx.Commit(t.Context()))
	require.False(t, <-answer)
	require.Equal(t, 1, b.count("blobs"))
}

func TestUnreferenced(t *testing.T) {
	b := newBench(t, postgres.Config{})
	var all []postgres.StoredBlob
	for _, tenant := range []string{"acme", "b"} {
		for _, digit := range "01234567" {
			all = append(all, postgres.StoredBlob{Tenant: tenant, Ref: cas(string(digit)), Bytes: 3})
		}
	}
	n, err := b.Adopt(t.Context(), all)
	require.NoError(t, err)
	require.Equal(t, len(all), n)
	n, err = b.Adopt(t.Context(), append(all[:2:2], postgres.StoredBlob{Tenant: "c", Ref: cas("9")}))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	all = append(all, postgres.StoredBlob{Tenant: "c", Ref: cas("9")})

	walk := func() (found []postgres.StoredBlob) {
		var last postgres.StoredBlob
		for looked := 0; ; {
			unheld, n, next, err := b.Unreferenced(t.Context(), last, 5)
			require.NoError(t, err)
			found = append(found, unheld...)
			if looked += n; n < 5 {
				require.Equal(t, len(all), looked)
				return found
			}
			last = next
		}
	}
	require.Empty(t, walk(), "adopted content counts as just stored")
	b.age()
	require.Equal(t, all, walk())
	b.recordPut("acme", cas("3"))
	r := turn("t1", "s")
	r.Input = []agent.Message{agent.UserText(cas("5"))}
	b.begin(r)
	require.Equal(t, slices.Concat(all[:3], all[4:5], all[6:]), walk())
}

func TestCollectTakesTurns(t *testing.T) {
	b := newBench(t, postgres.Config{})
	at := postgres.StoredBlob{Tenant: tenant, Ref: cas("a")}
	ran, err := b.Collect(t.Context(), func(ctx context.Context, c postgres.Collection) error {
		require.Equal(t, postgres.Collection{Due: true}, c)
		ran, err := b.Collect(ctx, func(context.Context, postgres.Collection) error { t.Error("two at once"); return nil })
		require.NoError(t, err)
		require.False(t, ran)
		require.NoError(t, b.SaveLedgerPosition(ctx, at))
		return b.SaveListing(ctx, []byte("token"))
	})
	require.NoError(t, err)
	require.True(t, ran)
	_, err = b.Collect(t.Context(), func(ctx context.Context, c postgres.Collection) error {
		require.Equal(t, postgres.Collection{Due: true, Last: at, Listing: []byte("token")}, c)
		require.NoError(t, b.SaveListing(ctx, nil))
		require.NoError(t, b.SaveLedgerPosition(ctx, postgres.StoredBlob{}))
		return agent.Errorf(agent.CodeUnavailable, "", "the bucket is away")
	})
	requireCode(t, agent.CodeUnavailable, err)
	ran, err = b.Collect(t.Context(), func(_ context.Context, c postgres.Collection) error {
		require.Equal(t, postgres.Collection{Due: true}, c)
		return nil
	})
	require.NoError(t, err)
	require.True(t, ran, "a failed collection releases the lock")
}

// The lock of a collector is released when its connection is cut.
func TestCollectorThatLostItsConnectionHoldsNobodyUp(t *testing.T) {
	b := newBench(t, postgres.Config{})
	_, err := b.Collect(t.Context(), func(ctx context.Context, _ postgres.Collection) error {
		_, err := b.pool.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
		require.NoError(t, err)
		return nil
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		ran, err := b.Collect(t.Context(), func(context.Context, postgres.Collection) error { return nil })
		return err == nil && ran
	}, 10*time.Second, 10*time.Millisecond)
}

// Content that was stored recently is left to the collection, because whoever stored it may be about to refer to it.
func TestDeleteSessionLeavesWhatWasJustPut(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for _, ref := range []string{cas("1"), cas("2"), cas("3")} {
		b.recordPut(tenant, ref)
	}
	b.ready("t1", "s")
	require.NoError(t, b.SaveModelStep(t.Context(), modelStep("t1", 1, 1, call("c1"))))
	s := toolStep("t1", 1, "c1", 1)
	s.Result.Ref, s.Verdict.Ref, s.Dataset = cas("1"), cas("1"), dataset(cas("3"), 1)
	require.NoError(t, b.SaveToolStep(t.Context(), s))
	f := finish("t1", "s")
	f.CASID = strings.TrimPrefix(cas("2"), "cas://")
	b.finish(f)
	b.age()
	b.recordPut(tenant, cas("2"))
	require.Equal(t, []string{cas("1"), cas("3")}, b.deleteSession("s").Refs)
	require.Equal(t, 3, b.count("blobs"), "the cached results are removed with the content")
}

func (b *bench) remembers(key, ref string, ttl time.Duration) {
	b.t.Helper()
	require.NoError(b.t, b.RememberResult(b.t.Context(), tenant, key, json.RawMessage(`{"of":"`+key+`"}`), ref, ttl))
}

func (b *bench) recalls(tenant, key string) string {
	b.t.Helper()
	body, ok, err := b.RecallResult(b.t.Context(), tenant, key)
	require.NoError(b.t, err)
	require.Equal(b.t, ok, body != nil)
	return string(body)
}

func TestCachedResults(t *testing.T) {
	b := newBench(t, postgres.Config{})
	require.Empty(t, b.recalls(tenant, "k"))
	b.recordPut(tenant, cas("a"))
	b.remembers("k", cas("a"), time.Hour)
	require.JSONEq(t, `{"of":"k"}`, b.recalls(tenant, "k"))
	require.Empty(t, b.recalls("evil", "k"))
	require.Empty(t, b.recalls(tenant, "K"))
	require.Equal(t, []string{"cache/k"}, b.holders(tenant, cas("a")))

	b.remembers("gone", cas("b"), time.Hour)
	require.Empty(t, b.recalls(tenant, "gone"), "the content was not stored")

	b.recordPut(tenant, cas("b"))
	b.remembers("k", cas("b"), time.Hour)
	require.Empty(t, b.holders(tenant, cas("a")))
	require.Equal(t, []string{"cache/gone", "cache/k"}, b.holders(tenant, cas("b")))
	b.exec(`UPDATE result_cache SET expires_at = clock_timestamp() WHERE key = 'k'`)
	require.Empty(t, b.recalls(tenant, "k"), "it has expired")
	b.remembers("k", cas("b"), time.Hour)
	require.NotEmpty(t, b.recalls(tenant, "k"))
}

// A call that has got a cached result just before it expires can still refer to its dataset.
func TestCachedContentOutlivesItsTime(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.recordPut(tenant, cas("a"))
	b.remembers("k", cas("a"), time.Hour)
	b.age()
	expire := func(ago string) int {
		b.exec(`UPDATE result_cache SET expires_at = clock_timestamp() - $1::interval`, ago)
		n, err := b.ExpireCached(t.Context(), 100)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, expire("59 minutes"))
	require.False(t, b.release(tenant, cas("a")))
	require.Equal(t, 1, expire("61 minutes"))
	require.Empty(t, b.holders(tenant, cas("a")))
	b.age()
	require.True(t, b.release(tenant, cas("a")))

	b.recordPut(tenant, cas("b"))
	b.recordPut(tenant, cas("c"))
	b.remembers("k", cas("b"), time.Hour)
	b.age()
	b.remembers("k", cas("c"), time.Hour) // replaced just after it was recalled
	require.False(t, b.release(tenant, cas("b")))
	b.age()
	require.True(t, b.release(tenant, cas("b")))
}

func TestCachedResultsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	b.exec(`INSERT INTO result_cache (tenant, key, body, digest, remembered_at, expires_at)
		SELECT $1, 'k' || i, '1', repeat('a', 64), clock_timestamp() - i * interval '1 s', clock_timestamp() + interval '1 h'
		FROM generate_series(1, 10001) AS i`, tenant)
	b.exec(`INSERT INTO result_cache SELECT 'other', key, body, digest, remembered_at, expires_at FROM result_cache`)
	b.recordPut(tenant, cas("a"))
	b.age()
	b.remembers("new", cas("b"), time.Hour)
	require.Equal(t, 10_000, b.count("result_cache WHERE tenant = 'acme'"))
	require.Equal(t, 10_001, b.count("result_cache WHERE tenant = 'other'"))
	require.Zero(t, b.count("result_cache WHERE tenant = 'acme' AND key IN ('k10000', 'k10001')"), "the oldest is removed")
	require.Equal(t, 1, b.count("blobs WHERE put_at > clock_timestamp() - interval '1 min'"), "and their content counts as just stored")

	for range 2 {
		b.exec(`UPDATE result_cache SET expires_at = clock_timestamp() - interval '2 h' WHERE tenant = 'other'`)
		n, err := b.ExpireCached(t.Context(), 6000)
		require.NoError(t, err)
		require.LessOrEqual(t, n, 6000)
	}
	require.Zero(t, b.count("result_cache WHERE tenant = 'other'"))
}

func TestRememberResultRefuses(t *testing.T) {
	b := newBench(t, postgres.Config{})
	for name, test := range map[string]struct {
		key, body, ref string
		ttl            time.Duration
		want           agent.Code
	}{
		"no key":       {"", "1", cas("a"), time.Hour, agent.CodeInvalid},
		"long key":     {strings.Repeat("k", 257), "1", cas("a"), time.Hour, agent.CodeInvalid},
		"NUL":          {"a\x00", "1", cas("a"), time.Hour, agent.CodeInvalid},
		"no reference": {"k", "1", "", time.Hour, agent.CodeInvalid},
		"no time":      {"k", "1", cas("a"), 0, agent.CodeInvalid},
		"no JSON":      {"k", "{", cas("a"), time.Hour, agent.CodeInvalid},
		"large":        {"k", `"` + strings.Repeat("x", 1<<20) + `"`, cas("a"), time.Hour, agent.CodeOverflow},
	} {
		requireCode(t, test.want, b.RememberResult(t.Context(), tenant, test.key, json.RawMessage(test.body), test.ref, test.ttl))
		require.Zero(t, b.count("result_cache")+b.count("blob_refs"), name)
	}
	b.recordPut(tenant, cas("a"))
	b.remembers("k", cas("a"), 1000*time.Hour)
	require.Equal(t, 1, b.count(fmt.Sprintf("result_cache WHERE expires_at < clock_timestamp() + interval '%d h'", 31*24)))
}
