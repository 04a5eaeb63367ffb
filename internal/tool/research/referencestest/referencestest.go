// Package referencestest is the suite that every [tool.References] passes, and a fake that keeps references in memory.
//
// What the suite asks for:
//
//   - Numbers begin with 1 in each conversation, in the order of what is added, without gaps, also when several calls add at once.
//     A number that was given out stays.
//   - A source is the same when its key or one of its aliases is the key or an alias of one that is kept; also within one call.
//     When it is the same as two that are kept, it is the one with the lower number, and both stay.
//   - What is added to a source that is kept: aliases that no other source has, and members of the item that it lacks. What it has stays.
//   - The answer has an entry for every source that was given, in that order, as it is kept.
//   - Conversations, and tenants, know nothing of each other.
package referencestest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The conversations of the suite, for a store in which they have to be there first: each tenant has both sessions.
const (
	Tenant       = "acme"
	OtherTenant  = "globex"
	Session      = agent.SessionID("s-1")
	OtherSession = agent.SessionID("s-2")
)

// Exercise runs the suite. Each call of open returns a store without references.
func Exercise(t *testing.T, open func(t *testing.T) tool.References) {
	t.Helper()
	cases := map[string]func(t *testing.T, store tool.References){
		"an empty conversation":         emptyConversation,
		"numbers":                       numbers,
		"again":                         again,
		"the same by an alias":          sameByAlias,
		"the same within one call":      sameInOneCall,
		"the same as two":               sameAsTwo,
		"items are united":              itemsUnited,
		"conversations apart":           conversationsApart,
		"odd words":                     oddWords,
		"many":                          many,
		"at once":                       atOnce,
		"nothing of a cancelled call":   cancelled,
		"what is returned is a copy":    copies,
		"keys differ by case and space": exactKeys,
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) { run(t, open(t)) })
	}
}

func ref(key, item string, aliases ...string) agent.Reference {
	return agent.Reference{Key: key, Aliases: aliases, Source: "pubmed", Item: json.RawMessage(item)}
}

func add(t *testing.T, store tool.References, refs ...agent.Reference) []agent.Reference {
	t.Helper()
	kept, err := store.AddReferences(t.Context(), Tenant, Session, refs)
	require.NoError(t, err)
	require.Len(t, kept, len(refs), "an entry for each")
	return kept
}

func list(t *testing.T, store tool.References, tenant string, s agent.SessionID) []agent.Reference {
	t.Helper()
	refs, err := store.References(t.Context(), tenant, s)
	require.NoError(t, err)
	for i := range refs {
		require.Equal(t, i+1, refs[i].Number, "numbers have no gap and are in order")
	}
	return refs
}

func emptyConversation(t *testing.T, store tool.References) {
	require.Empty(t, list(t, store, Tenant, Session))
	require.Empty(t, add(t, store))
	require.Empty(t, list(t, store, Tenant, Session))
}

func numbers(t *testing.T, store tool.References) {
	began := time.Now()
	kept := add(t, store, ref("doi:10.1/a", `{"type":"article-journal","title":"A"}`, "pmid:1", "url:https://a.example/"), ref("pmid:2", `{"title":"B"}`))
	require.Equal(t, []int{1, 2}, []int{kept[0].Number, kept[1].Number})
	kept = add(t, store, ref("nct:NCT00000001", `{"title":"C"}`))
	require.Equal(t, 3, kept[0].Number)

	all := list(t, store, Tenant, Session)
	require.Len(t, all, 3)
	require.Equal(t, "doi:10.1/a", all[0].Key)
	require.ElementsMatch(t, []string{"pmid:1", "url:https://a.example/"}, all[0].Aliases)
	require.Equal(t, "pubmed", all[0].Source)
	require.JSONEq(t, `{"type":"article-journal","title":"A"}`, string(all[0].Item))
	require.Equal(t, "nct:NCT00000001", all[2].Key)
	require.Empty(t, all[2].Aliases)
	for i := range all {
		require.WithinDuration(t, began, all[i].AddedAt, time.Minute)
	}
}

func again(t *testing.T, store tool.References) {
	one := ref("doi:10.1/a", `{"title":"A"}`, "pmid:1")
	first := add(t, store, one)
	second := add(t, store, one, ref("doi:10.1/b", `{"title":"B"}`))
	require.Equal(t, []int{1, 2}, []int{second[0].Number, second[1].Number})
	require.WithinDuration(t, first[0].AddedAt, second[0].AddedAt, 0, "when it was first found")
	require.Equal(t, []string{"pmid:1"}, second[0].Aliases)
	require.Len(t, list(t, store, Tenant, Session), 2)
}

func sameByAlias(t *testing.T, store tool.References) {
	add(t, store, ref("pmid:1", `{"title":"A"}`, "pmcid:PMC1"))
	for _, next := range []agent.Reference{
		ref("doi:10.1/a", `{"title":"A, of another source"}`, "pmid:1"), // alias = key
		ref("openalex:W1", `{"title":"A"}`, "pmcid:PMC1"),               // alias = alias
		ref("doi:10.1/a", `{"title":"A"}`),                              // key = an alias that came later
		ref("openalex:W1", `{"title":"A"}`),
	} {
		kept := add(t, store, next)
		require.Equal(t, 1, kept[0].Number)
		require.Equal(t, "pmid:1", kept[0].Key, "its name stays")
	}
	all := list(t, store, Tenant, Session)
	require.Len(t, all, 1)
	require.ElementsMatch(t, []string{"pmcid:PMC1", "doi:10.1/a", "openalex:W1"}, all[0].Aliases)
	require.JSONEq(t, `{"title":"A"}`, string(all[0].Item))
}

func sameInOneCall(t *testing.T, store tool.References) {
	kept := add(t, store,
		ref("doi:10.1/a", `{"title":"A"}`, "pmid:1"), ref("doi:10.1/b", `{"title":"B"}`), ref("pmid:1", `{"volume":"7"}`), ref("doi:10.1/b", `{"title":"B"}`))
	require.Equal(t, []int{1, 2, 1, 2}, []int{kept[0].Number, kept[1].Number, kept[2].Number, kept[3].Number})
	all := list(t, store, Tenant, Session)
	require.Len(t, all, 2)
	require.JSONEq(t, `{"title":"A","volume":"7"}`, string(all[0].Item))
}

func sameAsTwo(t *testing.T, store tool.References) {
	add(t, store, ref("pmid:9", `{"title":"other"}`), ref("openalex:W1", `{"title":"A"}`), ref("pmid:1", `{"title":"A"}`))
	kept := add(t, store, ref("doi:10.1/a", `{"DOI":"10.1/a"}`, "pmid:1", "openalex:W1"))
	require.Equal(t, 2, kept[0].Number, "the lower number")
	kept = add(t, store, ref("doi:10.1/a", `{"DOI":"10.1/a"}`))
	require.Equal(t, 2, kept[0].Number)
	all := list(t, store, Tenant, Session)
	require.Len(t, all, 3, "a number that was given out stays")
	require.JSONEq(t, `{"title":"A","DOI":"10.1/a"}`, string(all[1].Item))
	require.Equal(t, []string{"doi:10.1/a"}, all[1].Aliases)
	require.Equal(t, "pmid:1", all[2].Key)
}

func itemsUnited(t *testing.T, store tool.References) {
	add(t, store, ref("doi:10.1/a", `{"title":"First","author":[{"family":"A"}],"issued":{"date-parts":[[2020]]}}`))
	kept := add(t, store, ref("doi:10.1/a", `{"title":"Second","author":[{"family":"B"},{"family":"C"}],"abstract":"words","issued":{"date-parts":[[2020,5,1]]}}`))
	const want = `{"title":"First","author":[{"family":"A"}],"issued":{"date-parts":[[2020]]},"abstract":"words"}`
	require.JSONEq(t, want, string(kept[0].Item))
	require.JSONEq(t, want, string(list(t, store, Tenant, Session)[0].Item))
}

func conversationsApart(t *testing.T, store tool.References) {
	add(t, store, ref("doi:10.1/a", `{"title":"A"}`), ref("doi:10.1/b", `{"title":"B"}`))
	for _, at := range []struct {
		tenant string
		s      agent.SessionID
	}{{Tenant, OtherSession}, {OtherTenant, Session}, {OtherTenant, OtherSession}} {
		require.Empty(t, list(t, store, at.tenant, at.s))
		kept, err := store.AddReferences(t.Context(), at.tenant, at.s, []agent.Reference{ref("doi:10.1/b", `{"title":"mine"}`)})
		require.NoError(t, err)
		require.Equal(t, 1, kept[0].Number)
		require.JSONEq(t, `{"title":"mine"}`, string(kept[0].Item))
	}
	require.Len(t, list(t, store, Tenant, Session), 2)
}

func oddWords(t *testing.T, store tool.References) {
	const key = `url:https://example.com/a?b='c'&d="%27;--{x}`
	const item = `{"title":"<i>β</i>-Catenin \\ \"x\" 'y' 漢字 🧬 $1 %s","n":12345678901234567890,"nothing":null,"deep":{"a":[1,{"b":"c"}]}}`
	add(t, store, ref(key, item, "doi:10.1002/(sici)1097-0142(19990101)85:1<1::aid-cncr1>3.0.co;2-x", "ä,ö", `{"a"}`))
	all := list(t, store, Tenant, Session)
	require.Len(t, all, 1)
	require.Equal(t, key, all[0].Key)
	require.ElementsMatch(t, []string{"doi:10.1002/(sici)1097-0142(19990101)85:1<1::aid-cncr1>3.0.co;2-x", "ä,ö", `{"a"}`}, all[0].Aliases)
	require.JSONEq(t, item, string(all[0].Item))
	require.Equal(t, 1, add(t, store, ref(`{"a"}`, `{}`))[0].Number)
}

func many(t *testing.T, store tool.References) {
	const n = 250
	refs := make([]agent.Reference, n)
	for i := range refs {
		refs[i] = ref("doi:10.1/"+strconv.Itoa(i), fmt.Sprintf(`{"title":"T %d"}`, i), "pmid:"+strconv.Itoa(i))
	}
	for i, kept := range add(t, store, refs...) {
		require.Equal(t, i+1, kept.Number)
	}
	slices.Reverse(refs)
	for i, kept := range add(t, store, refs...) {
		require.Equal(t, n-i, kept.Number)
	}
	require.Len(t, list(t, store, Tenant, Session), n)
}

// atOnce adds overlapping sources from several calls, as the parallel calls of a step do.
func atOnce(t *testing.T, store tool.References) {
	const callers, shared, own = 8, 10, 5
	answers := make([][]agent.Reference, callers)
	errs := make([]error, callers)
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			var refs []agent.Reference
			for i := range shared { // each caller begins with another one
				k := (i + c) % shared
				refs = append(refs, ref("doi:10.1/"+strconv.Itoa(k), `{"title":"T"}`, "pmid:"+strconv.Itoa(k)))
			}
			for i := range own {
				refs = append(refs, ref(fmt.Sprintf("url:https://%d.example/%d", c, i), `{"title":"U"}`))
			}
			answers[c], errs[c] = store.AddReferences(t.Context(), Tenant, Session, refs)
		})
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	all := list(t, store, Tenant, Session)
	require.Len(t, all, shared+callers*own)
	number := map[string]int{}
	for i := range all {
		number[all[i].Key] = all[i].Number
	}
	require.Len(t, number, len(all), "each source once")
	for _, kept := range answers {
		require.Len(t, kept, shared+own)
		for i := range kept {
			require.Equal(t, number[kept[i].Key], kept[i].Number, "every caller is told the number that stays")
		}
	}
}

func cancelled(t *testing.T, store tool.References) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := store.AddReferences(ctx, Tenant, Session, []agent.Reference{ref("doi:10.1/a", `{"title":"A"}`)})
	require.Error(t, err)
	_, err = store.References(ctx, Tenant, Session)
	require.Error(t, err)
	require.Empty(t, list(t, store, Tenant, Session))
}

func copies(t *testing.T, store tool.References) {
	given := []agent.Reference{ref("doi:10.1/a", `{"title":"A"}`, "pmid:1")}
	kept, err := store.AddReferences(t.Context(), Tenant, Session, given)
	require.NoError(t, err)
	for _, refs := range [][]agent.Reference{given, kept, list(t, store, Tenant, Session)} {
		refs[0].Key, refs[0].Aliases[0] = "changed", "changed"
		clear(refs[0].Item)
	}
	all := list(t, store, Tenant, Session)
	require.Equal(t, "doi:10.1/a", all[0].Key)
	require.Equal(t, []string{"pmid:1"}, all[0].Aliases)
	require.JSONEq(t, `{"title":"A"}`, string(all[0].Item))
}

func exactKeys(t *testing.T, store tool.References) {
	kept := add(t, store, ref("url:https://a.example/X", `{}`), ref("url:https://a.example/x", `{}`), ref("url:https://a.example/x ", `{}`))
	require.Equal(t, []int{1, 2, 3}, []int{kept[0].Number, kept[1].Number, kept[2].Number})
}
