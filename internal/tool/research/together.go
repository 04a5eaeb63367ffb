package research

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
)

const togetherTool = "search_research"

// defaultTogether is how many results search_research answers unless told.
const defaultTogether = 20

// sourceNames lists the sources in the order in which their results are mixed.
func (t *toolkit) sourceNames() []string {
	names := []string{pubmedName, preprintsName, openAlexName, trialsName}
	if t.byName[webName] != nil {
		names = append(names, webName)
	}
	return names
}

// parseTogether reads a search of several sources at once.
func (t *toolkit) parseTogether(args json.RawMessage) (*search, error) {
	var in struct {
		common
		Sources  *[]string `json:"sources"`
		FromYear *int      `json:"from_year"`
		ToYear   *int      `json:"to_year"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	query, n, err := in.queryAndMax(defaultTogether)
	if err != nil {
		return nil, err
	}
	span, err := years(in.FromYear, in.ToYear)
	if err != nil {
		return nil, err
	}
	chosen := t.sourceNames()
	if in.Sources != nil {
		if len(*in.Sources) == 0 {
			return nil, agent.Invalid("sources", "is empty")
		}
		if chosen, err = choices("sources", in.Sources, t.sourceNames()); err != nil {
			return nil, err
		}
	}
	var searches []*search
	var names []string
	for _, name := range t.sourceNames() {
		if slices.Contains(chosen, name) {
			searches, names = append(searches, t.byName[name].broad(query, n, span)), append(names, name)
		}
	}
	return &search{
		source: strings.Join(names, ","), title: "research", query: query, max: n,
		run: func(ctx context.Context, x *exchange) (*searchResult, error) { return searchAll(ctx, x, searches, n) },
	}, nil
}

// searchAll asks all sources at once, each within its own time. Those that fail are listed; when all fail, so does the search.
func searchAll(ctx context.Context, x *exchange, searches []*search, maxResults int) (*searchResult, error) {
	got := make([]*searchResult, len(searches))
	errs := make([]error, len(searches))
	var running sync.WaitGroup
	for i, one := range searches {
		running.Go(func() {
			got[i], errs[i] = searchOne(ctx, x, one)
			x.inv.Report(progress(one, got[i], errs[i]))
		})
	}
	running.Wait()
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	out := &searchResult{}
	var lists [][]work
	for i, one := range searches {
		if errs[i] != nil {
			out.failed = append(out.failed, failure{Source: one.source, Error: clip(errs[i].Error(), 2*maxComplaint)})
			continue
		}
		out.total += got[i].total
		for _, w := range got[i].warnings {
			out.warn("%s", w)
		}
		lists = append(lists, got[i].works)
	}
	if len(lists) == 0 {
		return nil, allFailed(errs, out.failed)
	}
	out.works = interleave(lists, maxResults)
	return out, nil
}

// searchOne asks one source. A panic while its answer is read is that source's failure, and does not end the process.
func searchOne(ctx context.Context, x *exchange, one *search) (f *searchResult, err error) {
	defer func() {
		if recover() != nil {
			f, err = nil, agent.Errorf(agent.CodeInternal, opSearch, "%s: its answer could not be handled", one.title)
		}
	}()
	bounded, free := context.WithTimeout(ctx, x.kit.cfg.SourceTimeout)
	defer free()
	f, err = one.run(bounded, x)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, agent.Errorf(agent.CodeUnavailable, "", "%s did not answer within %s", one.title, x.kit.cfg.SourceTimeout)
	}
	return f, err
}

func progress(one *search, f *searchResult, err error) string {
	if err != nil {
		return one.title + ": failed"
	}
	return fmt.Sprintf("%s: %d results", one.title, len(f.works))
}

// allFailed returns one error for all, retryable if any of them is.
func allFailed(errs []error, failures []failure) error {
	code := agent.CodeOf(errs[0])
	var texts []string
	for i, f := range failures {
		if c := agent.CodeOf(errs[i]); c == agent.CodeUnavailable || c == agent.CodeRateLimited {
			code = c
		}
		texts = append(texts, f.Source+": "+f.Error)
	}
	return agent.Errorf(code, "", "all sources failed: %s", clip(strings.Join(texts, "; "), maxQuoted))
}

const maxQuoted = 1800 // characters of what several sources have said

// interleave returns one list of several: the first of each, then the second of each and so on, each work once.
func interleave(lists [][]work, limit int) []work {
	var all []work
	longest := 0
	for _, l := range lists {
		longest = max(longest, len(l))
	}
	for row := range longest {
		for _, l := range lists {
			if row < len(l) {
				all = append(all, l[row])
			}
		}
	}
	for before := -1; before != len(all); { // a merged work may share a key with another
		before, all = len(all), mergeDuplicates(all)
	}
	return all[:min(limit, len(all))]
}

// mergeDuplicates merges works that share a key. A merged work is where the first of them was.
func mergeDuplicates(all []work) []work {
	var out []work
	for i := range all {
		w := &all[i]
		same := slices.IndexFunc(out, func(o work) bool { return shareKey(&o, w) })
		if same < 0 {
			out = append(out, *w)
			continue
		}
		a, b := &out[same], w
		if b.weight() > a.weight() {
			a, b = b, a
		}
		merged := *a
		merged.also = slices.Clone(a.also)
		mergeWork(&merged, b)
		out[same] = merged
	}
	return out
}

func shareKey(a, b *work) bool {
	keys := b.keys()
	return slices.ContainsFunc(a.keys(), func(k string) bool { return slices.Contains(keys, k) })
}
