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

const searchAllTool = "search_research"

// defaultAllResults is the default number of results of search_research.
const defaultAllResults = 20

// sourceNames returns the names of the sources in the order in which their results are interleaved.
func (t *toolkit) sourceNames() []string {
	names := []string{pubmedName, preprintsName, openAlexName, trialsName}
	if t.byName[webName] != nil {
		names = append(names, webName)
	}
	return names
}

// parseSearchAll parses the arguments of search_research.
func (t *toolkit) parseSearchAll(args json.RawMessage) (*search, error) {
	var in struct {
		commonArguments
		Sources  *[]string `json:"sources"`
		FromYear *int      `json:"from_year"`
		ToYear   *int      `json:"to_year"`
	}
	r := readArguments(args, &in)
	query, n, years := r.query(in.Query), r.maxResults(in.MaxResults, defaultAllResults), r.years(in.FromYear, in.ToYear)
	names := t.sourceNames()
	if in.Sources != nil {
		chosen := r.choices("sources", in.Sources, names)
		if len(chosen) == 0 {
			r.fail(agent.Invalid("sources", "is empty"))
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(chosen, name) })
	}
	var searches []*search
	for _, name := range names {
		searches = append(searches, t.byName[name].broad(query, n, years))
	}
	return &search{
		source: strings.Join(names, ","), title: "research", query: query, max: n,
		run: func(ctx context.Context, x *exchange) (*searchResult, error) { return searchAll(ctx, x, searches, n) },
	}, r.err
}

// searchAll runs several searches at once, each within its own time. It lists those that fail, and fails only if all do.
func searchAll(ctx context.Context, x *exchange, searches []*search, maxResults int) (*searchResult, error) {
	results := make([]*searchResult, len(searches))
	errs := make([]error, len(searches))
	var running sync.WaitGroup
	for i, s := range searches {
		running.Go(func() {
			results[i], errs[i] = x.runSearch(ctx, s)
			if errs[i] != nil {
				x.inv.Report(s.title + ": failed")
				return
			}
			x.inv.Report(fmt.Sprintf("%s: %d results", s.title, len(results[i].works)))
		})
	}
	running.Wait()
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	out := &searchResult{}
	var lists [][]work
	for i, s := range searches {
		if errs[i] != nil {
			out.failed = append(out.failed, failure{Source: s.source, Error: clip(errs[i].Error(), 2*maxErrorText)})
			continue
		}
		out.total += results[i].total
		for _, w := range results[i].warnings {
			out.warn("%s", w)
		}
		lists = append(lists, results[i].works)
	}
	if len(lists) == 0 {
		return nil, allFailedError(errs, out.failed)
	}
	out.works = interleave(lists, maxResults)
	return out, nil
}

// runSearch runs a search within the time of one source. A panic is an error of this source, and does not end the process.
func (x *exchange) runSearch(ctx context.Context, s *search) (f *searchResult, err error) {
	defer func() {
		if recover() != nil {
			f, err = nil, agent.Errorf(agent.CodeInternal, opSearch, "%s: its answer could not be handled", s.title)
		}
	}()
	bounded, cancel := context.WithTimeout(ctx, x.kit.cfg.SourceTimeout)
	defer cancel()
	f, err = s.run(bounded, x)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, agent.Errorf(agent.CodeUnavailable, "", "%s did not answer within %s", s.title, x.kit.cfg.SourceTimeout)
	}
	return f, err
}

// allFailedError returns one error for several, which is retryable if any of them is.
func allFailedError(errs []error, failures []failure) error {
	code := agent.CodeOf(errs[0])
	var texts []string
	for i, f := range failures {
		if c := agent.CodeOf(errs[i]); c == agent.CodeUnavailable || c == agent.CodeRateLimited {
			code = c
		}
		texts = append(texts, f.Source+": "+f.Error)
	}
	return agent.Errorf(code, "", "all sources failed: %s", clip(strings.Join(texts, "; "), maxAllErrors))
}

const maxAllErrors = 1800 // characters of the errors of several sources

// interleave returns the works of several lists, each once: the first of each list, then the second of each, and so on.
func interleave(lists [][]work, limit int) []work {
	var all []work
	longest := 0
	for _, l := range lists {
		longest = max(longest, len(l))
	}
	for i := range longest {
		for _, l := range lists {
			if i < len(l) {
				all = append(all, l[i])
			}
		}
	}
	for before := -1; before != len(all); { // a merged work may share a key with another one
		before, all = len(all), mergeDuplicates(all)
	}
	return all[:min(limit, len(all))]
}

// mergeDuplicates merges works that share a key. A merged work takes the place of the first of them.
func mergeDuplicates(all []work) []work {
	var out []work
	for i := range all {
		w := &all[i]
		same := slices.IndexFunc(out, func(o work) bool { return shareKey(&o, w) })
		if same < 0 {
			out = append(out, *w)
			continue
		}
		better, other := &out[same], w
		if other.weight() > better.weight() {
			better, other = other, better
		}
		merged := *better
		merged.alsoIn = slices.Clone(better.alsoIn)
		mergeWork(&merged, other)
		out[same] = merged
	}
	return out
}

func shareKey(a, b *work) bool {
	keys := b.keys()
	return slices.ContainsFunc(a.keys(), func(k string) bool { return slices.Contains(keys, k) })
}
