package tooltest

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

// The tenants and conversations in the suites of stores.
const (
	Tenant       = "acme"
	OtherTenant  = "globex"
	Session      = agent.SessionID("s-1")
	OtherSession = agent.SessionID("s-2")
)

// ExerciseReferences runs the suite of [tool.References]. Each call of open returns an empty store, in which [Tenant] and [OtherTenant] have
// both sessions.
//
// The suite checks:
//
//   - Numbers begin with 1 in each conversation, and follow the order of additions without gaps, also if several calls add references at once.
//     The number of a reference never changes.
//   - Two references are the same if they share a key or an alias, also within one call. A reference that is the same as two stored ones counts
//     as the one with the lower number; both stay.
//   - A stored reference gets new aliases, unless another reference has them, and members that its item lacks. Nothing else of it changes.
//   - The result has an entry for every given reference, in the given order, as it is stored.
//   - Conversations and tenants are isolated.
func ExerciseReferences(t *testing.T, open func(t *testing.T) tool.References) {
	t.Helper()
	cases := map[string]func(t *testing.T, store tool.References){
		"an empty conversation":         checkEmptyConversation,
		"numbers":                       checkNumbers,
		"added again":                   checkAddedAgain,
		"the same by an alias":          checkSameByAlias,
		"the same within one call":      checkSameInOneCall,
		"the same as two":               checkSameAsTwo,
		"items are merged":              checkItemsAreMerged,
		"conversations are isolated":    checkConversationsAreApart,
		"special characters":            checkSpecialCharacters,
		"many":                          checkMany,
		"concurrent calls":              checkConcurrentCalls,
		"a cancelled call":              checkCancelledCall,
		"results are copies":            checkCopies,
		"keys differ by case and space": checkExactKeys,
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) { run(t, open(t)) })
	}
}

func newReference(key, item string, aliases ...string) agent.Reference {
	return agent.Reference{Key: key, Aliases: aliases, Source: "pubmed", Item: json.RawMessage(item)}
}

func addReferences(t *testing.T, store tool.References, refs ...agent.Reference) []agent.Reference {
	t.Helper()
	kept, err := store.AddReferences(t.Context(), Tenant, Session, refs)
	require.NoError(t, err)
	require.Len(t, kept, len(refs), "an entry for each")
	return kept
}

func listReferences(t *testing.T, store tool.References, tenant string, s agent.SessionID) []agent.Reference {
	t.Helper()
	refs, err := store.References(t.Context(), tenant, s)
	require.NoError(t, err)
	for i := range refs {
		require.Equal(t, i+1, refs[i].Number, "numbers have no gap and are in order")
	}
	return refs
}

func checkEmptyConversation(t *testing.T, store tool.References) {
	require.Empty(t, listReferences(t, store, Tenant, Session))
	require.Empty(t, addReferences(t, store))
	require.Empty(t, listReferences(t, store, Tenant, Session))
}

func checkNumbers(t *testing.T, store tool.References) {
	began := time.Now()
	kept := addReferences(t, store, newReference("doi:10.1/a", `{"type":"article-journal","title":"A"}`, "pmid:1", "url:https://a.example/"), newReference("pmid:2", `{"title":"B"}`))
	require.Equal(t, []int{1, 2}, []int{kept[0].Number, kept[1].Number})
	kept = addReferences(t, store, newReference("nct:NCT00000001", `{"title":"C"}`))
	require.Equal(t, 3, kept[0].Number)

	all := listReferences(t, store, Tenant, Session)
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

func checkAddedAgain(t *testing.T, store tool.References) {
	one := newReference("doi:10.1/a", `{"title":"A"}`, "pmid:1")
	first := addReferences(t, store, one)
	second := addReferences(t, store, one, newReference("doi:10.1/b", `{"title":"B"}`))
	require.Equal(t, []int{1, 2}, []int{second[0].Number, second[1].Number})
	require.WithinDuration(t, first[0].AddedAt, second[0].AddedAt, 0, "when it was first found")
	require.Equal(t, []string{"pmid:1"}, second[0].Aliases)
	require.Len(t, listReferences(t, store, Tenant, Session), 2)
}

func checkSameByAlias(t *testing.T, store tool.References) {
	addReferences(t, store, newReference("pmid:1", `{"title":"A"}`, "pmcid:PMC1"))
	for _, next := range []agent.Reference{
		newReference("doi:10.1/a", `{"title":"A, of another source"}`, "pmid:1"), // alias = key
		newReference("openalex:W1", `{"title":"A"}`, "pmcid:PMC1"),               // alias = alias
		newReference("doi:10.1/a", `{"title":"A"}`),                              // key = an alias that came later
		newReference("openalex:W1", `{"title":"A"}`),
	} {
		kept := addReferences(t, store, next)
		require.Equal(t, 1, kept[0].Number)
		require.Equal(t, "pmid:1", kept[0].Key, "its name stays")
	}
	all := listReferences(t, store, Tenant, Session)
	require.Len(t, all, 1)
	require.ElementsMatch(t, []string{"pmcid:PMC1", "doi:10.1/a", "openalex:W1"}, all[0].Aliases)
	require.JSONEq(t, `{"title":"A"}`, string(all[0].Item))
}

func checkSameInOneCall(t *testing.T, store tool.References) {
	kept := addReferences(t, store,
		newReference("doi:10.1/a", `{"title":"A"}`, "pmid:1"), newReference("doi:10.1/b", `{"title":"B"}`), newReference("pmid:1", `{"volume":"7"}`), newReference("doi:10.1/b", `{"title":"B"}`))
	require.Equal(t, []int{1, 2, 1, 2}, []int{kept[0].Number, kept[1].Number, kept[2].Number, kept[3].Number})
	all := listReferences(t, store, Tenant, Session)
	require.Len(t, all, 2)
	require.JSONEq(t, `{"title":"A","volume":"7"}`, string(all[0].Item))
}

func checkSameAsTwo(t *testing.T, store tool.References) {
	addReferences(t, store, newReference("pmid:9", `{"title":"other"}`), newReference("openalex:W1", `{"title":"A"}`), newReference("pmid:1", `{"title":"A"}`))
	kept := addReferences(t, store, newReference("doi:10.1/a", `{"DOI":"10.1/a"}`, "pmid:1", "openalex:W1"))
	require.Equal(t, 2, kept[0].Number, "the lower number")
	kept = addReferences(t, store, newReference("doi:10.1/a", `{"DOI":"10.1/a"}`))
	require.Equal(t, 2, kept[0].Number)
	all := listReferences(t, store, Tenant, Session)
	require.Len(t, all, 3, "a number that was given out stays")
	require.JSONEq(t, `{"title":"A","DOI":"10.1/a"}`, string(all[1].Item))
	require.Equal(t, []string{"doi:10.1/a"}, all[1].Aliases)
	require.Equal(t, "pmid:1", all[2].Key)
}

func checkItemsAreMerged(t *testing.T, store tool.References) {
	addReferences(t, store, newReference("doi:10.1/a", `{"title":"First","author":[{"family":"A"}],"issued":{"date-parts":[[2020]]}}`))
	kept := addReferences(t, store, newReference("doi:10.1/a", `{"title":"Second","author":[{"family":"B"},{"family":"C"}],"abstract":"words","issued":{"date-parts":[[2020,5,1]]}}`))
	const want = `{"title":"First","author":[{"family":"A"}],"issued":{"date-parts":[[2020]]},"abstract":"words"}`
	require.JSONEq(t, want, string(kept[0].Item))
	require.JSONEq(t, want, string(listReferences(t, store, Tenant, Session)[0].Item))
}

func checkConversationsAreApart(t *testing.T, store tool.References) {
	addReferences(t, store, newReference("doi:10.1/a", `{"title":"A"}`), newReference("doi:10.1/b", `{"title":"B"}`))
	for _, other := range []struct {
		tenant  string
		session agent.SessionID
	}{{Tenant, OtherSession}, {OtherTenant, Session}, {OtherTenant, OtherSession}} {
		require.Empty(t, listReferences(t, store, other.tenant, other.session))
		kept, err := store.AddReferences(t.Context(), other.tenant, other.session, []agent.Reference{newReference("doi:10.1/b", `{"title":"mine"}`)})
		require.NoError(t, err)
		require.Equal(t, 1, kept[0].Number)
		require.JSONEq(t, `{"title":"mine"}`, string(kept[0].Item))
	}
	require.Len(t, listReferences(t, store, Tenant, Session), 2)
}

func checkSpecialCharacters(t *testing.T, store tool.References) {
	const key = `url:https://example.com/a?b='c'&d="%27;--{x}`
	const item = `{"title":"<i>β</i>-Catenin \\ \"x\" 'y' 漢字 🧬 $1 %s","n":12345678901234567890,"nothing":null,"deep":{"a":[1,{"b":"c"}]}}`
	addReferences(t, store, newReference(key, item, "doi:10.1002/(sici)1097-0142(19990101)85:1<1::aid-cncr1>3.0.co;2-x", "ä,ö", `{"a"}`))
	all := listReferences(t, store, Tenant, Session)
	require.Len(t, all, 1)
	require.Equal(t, key, all[0].Key)
	require.ElementsMatch(t, []string{"doi:10.1002/(sici)1097-0142(19990101)85:1<1::aid-cncr1>3.0.co;2-x", "ä,ö", `{"a"}`}, all[0].Aliases)
	require.JSONEq(t, item, string(all[0].Item))
	require.Equal(t, 1, addReferences(t, store, newReference(`{"a"}`, `{}`))[0].Number)
}

func checkMany(t *testing.T, store tool.References) {
	const n = 250
	refs := make([]agent.Reference, n)
	for i := range refs {
		refs[i] = newReference("doi:10.1/"+strconv.Itoa(i), fmt.Sprintf(`{"title":"T %d"}`, i), "pmid:"+strconv.Itoa(i))
	}
	for i, kept := range addReferences(t, store, refs...) {
		require.Equal(t, i+1, kept.Number)
	}
	slices.Reverse(refs)
	for i, kept := range addReferences(t, store, refs...) {
		require.Equal(t, n-i, kept.Number)
	}
	require.Len(t, listReferences(t, store, Tenant, Session), n)
}

// checkConcurrentCalls adds overlapping references in several calls at once, as the parallel calls of a step do.
func checkConcurrentCalls(t *testing.T, store tool.References) {
	const callers, shared, unshared = 8, 10, 5
	answers := make([][]agent.Reference, callers)
	errs := make([]error, callers)
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			var refs []agent.Reference
			for i := range shared { // each caller begins with a different one
				k := (i + c) % shared
				refs = append(refs, newReference("doi:10.1/"+strconv.Itoa(k), `{"title":"T"}`, "pmid:"+strconv.Itoa(k)))
			}
			for i := range unshared {
				refs = append(refs, newReference(fmt.Sprintf("url:https://%d.example/%d", c, i), `{"title":"U"}`))
			}
			answers[c], errs[c] = store.AddReferences(t.Context(), Tenant, Session, refs)
		})
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	all := listReferences(t, store, Tenant, Session)
	require.Len(t, all, shared+callers*unshared)
	number := map[string]int{}
	for i := range all {
		number[all[i].Key] = all[i].Number
	}
	require.Len(t, number, len(all), "each source once")
	for _, kept := range answers {
		require.Len(t, kept, shared+unshared)
		for i := range kept {
			require.Equal(t, number[kept[i].Key], kept[i].Number, "every caller gets the stored number")
		}
	}
}

func checkCancelledCall(t *testing.T, store tool.References) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := store.AddReferences(ctx, Tenant, Session, []agent.Reference{newReference("doi:10.1/a", `{"title":"A"}`)})
	require.Error(t, err)
	_, err = store.References(ctx, Tenant, Session)
	require.Error(t, err)
	require.Empty(t, listReferences(t, store, Tenant, Session))
}

func checkCopies(t *testing.T, store tool.References) {
	given := []agent.Reference{newReference("doi:10.1/a", `{"title":"A"}`, "pmid:1")}
	kept, err := store.AddReferences(t.Context(), Tenant, Session, given)
	require.NoError(t, err)
	for _, refs := range [][]agent.Reference{given, kept, listReferences(t, store, Tenant, Session)} {
		refs[0].Key, refs[0].Aliases[0] = "changed", "changed"
		clear(refs[0].Item)
	}
	all := listReferences(t, store, Tenant, Session)
	require.Equal(t, "doi:10.1/a", all[0].Key)
	require.Equal(t, []string{"pmid:1"}, all[0].Aliases)
	require.JSONEq(t, `{"title":"A"}`, string(all[0].Item))
}

func checkExactKeys(t *testing.T, store tool.References) {
	kept := addReferences(t, store, newReference("url:https://a.example/X", `{}`), newReference("url:https://a.example/x", `{}`), newReference("url:https://a.example/x ", `{}`))
	require.Equal(t, []int{1, 2, 3}, []int{kept[0].Number, kept[1].Number, kept[2].Number})
}
